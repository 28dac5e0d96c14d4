import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.charset import codec_of, decode
from crawler.records import Fault

CASES = Path(__file__).parent / "cases"
TEXT = "渠首枢纽今日巡检记录，闸位正常。两岸来了许多年轻人，他们在堤上看水。" * 4
PAGE = f"<html><head><title>巡检</title></head><body><p>{TEXT}</p></body></html>"
TRADITIONAL = PAGE.replace("巡检<", "巡檢<").replace(
    TEXT, "渠首樞紐今日巡檢記錄，閘位正常。兩岸來了許多年輕人，他們在堤上看水。" * 4
)


@pytest.mark.parametrize(
    ("name", "charset", "words"),
    [
        ("11_hz_gb_2312.html", "hz", "薄雾"),
        ("12_gbk_one_bad_byte.html", "gb18030", "薄雾"),
        ("12_gbk_one_bad_byte.html", "gb18030", "风筝"),
        ("18_gb18030_big5_undeclared_short.html", "gb18030", "停航"),
        ("c25_late_meta.html", "gb18030", "编码声明写在一万字节之后"),
        ("c26_bom.html", "utf-8", "字节序记号"),
        ("c28_big5.html", "big5hkscs", "佢哋喺旺角食咗嘢，啲餸好好味，攞嚟啦。"),
        ("c28_big5_hkscs.html", "big5hkscs", "佢哋喺旺角食咗嘢，啲餸好好味，攞嚟啦。"),
        ("c28_cn_big5.html", "big5hkscs", "佢哋喺旺角食咗嘢，啲餸好好味，攞嚟啦。"),
        ("c28_csbig5.html", "big5hkscs", "佢哋喺旺角食咗嘢，啲餸好好味，攞嚟啦。"),
        ("c28_x_x_big5.html", "big5hkscs", "佢哋喺旺角食咗嘢，啲餸好好味，攞嚟啦。"),
        ("c40_same_body.html", "gb18030", "两个地址，同一份公告：闸门维护。"),
    ],
)
def test_the_pages_that_were_reported_are_read(name: str, charset: str, words: str) -> None:
    header = "text/html; charset=gb2312" if name == "c26_bom.html" else "text/html"
    decoded = decode((CASES / name).read_bytes(), header)
    assert decoded.charset == charset
    assert words in decoded.text
    assert "\ufeff" not in decoded.text
    assert decoded.faults == ()


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "gb18030", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    "header", ["", "text/html; charset=ISO-8859-1", "text/html; charset=gb2312", "a; charset=utf-8"]
)
def test_a_page_is_read_whatever_the_header_says(charset: str, header: str) -> None:
    assert decode(PAGE.encode(charset), header).text == PAGE


@pytest.mark.parametrize(
    ("charset", "text"),
    [("big5hkscs", TRADITIONAL), ("euc_jp", PAGE.replace("巡检<", "<").replace(TEXT, "これは日本語の文章です。" * 9))],
)
def test_other_multi_byte_pages_are_detected(charset: str, text: str) -> None:
    assert decode(text.encode(charset)).text == text


def test_single_byte_declarations_count_unless_they_are_a_servers_default() -> None:
    russian = "<p>Привет, как дела? Сегодня хорошая погода.</p>"
    assert decode(russian.encode("koi8-r"), "text/html; charset=koi8-r").text == russian
    french = "<p>Élève très occupé à l’école</p>"
    assert decode(french.encode("cp1252"), "text/html; charset=iso-8859-1").text == french


def test_bad_bytes_in_utf8_do_not_change_the_charset() -> None:
    body = bytearray(PAGE.encode())
    body[200] = 0xFF
    decoded = decode(bytes(body), "text/html; charset=gbk")
    assert decoded.charset == "utf-8"
    assert decoded.text.count("\ufffd") <= 3
    assert decoded.faults == ()


def test_a_few_words_of_gbk_that_could_be_utf8_follow_their_declaration() -> None:
    assert decode("停水通知".encode("gbk"), "text/html; charset=gb2312").text == "停水通知"
    assert decode("Größe".encode(), "text/html; charset=iso-8859-1").text == "Größe"


def test_a_declaration_in_a_comment_or_script_does_not_count() -> None:
    head = b"<head><!-- <meta charset=big5> --><script>'<meta charset=big5>'</script><meta charset=koi8-r></head>"
    assert decode(head).charset == "koi8-r"


def test_a_page_in_ascii_keeps_its_declared_charset_for_its_links() -> None:
    assert decode(b"<meta charset=gbk><a href='?q=&#28192;'>").charset == "gb18030"
    assert decode(b"<p>plain</p>").charset == "utf-8"


def test_bytes_that_are_no_text_are_a_fault() -> None:
    noise = bytes(range(256)) * 40
    assert decode(noise, "text/html; charset=utf-8").faults == (Fault.BAD_ENCODING,)


@pytest.mark.parametrize("label", ["utf-7", "rot13", "base64", "idna", "no-such", "utf-16", "", "\0", "unicode_escape"])
def test_a_label_that_is_no_charset_of_a_page_is_none(label: str) -> None:
    assert codec_of(label) is None


@given(
    st.binary(max_size=400),
    st.sampled_from(
        ["", "text/html; charset=gbk", "a; charset=utf-7", "a; charset=big5", 'a;charset="', "a; charset=hz"]
    ),
)
def test_no_bytes_raise(body: bytes, content_type: str) -> None:
    decoded = decode(body, content_type)
    "字".encode(decoded.charset, "replace")


@pytest.mark.parametrize("charset", ["gb18030", "latin-1"])
def test_a_giant_page_that_is_not_utf8_is_read_in_time(charset: str) -> None:
    body = ("水库" if charset == "gb18030" else "Größe ").encode(charset) * 1_000_000
    started = time.process_time()
    decode(body, "text/html")
    assert time.process_time() - started < 5
