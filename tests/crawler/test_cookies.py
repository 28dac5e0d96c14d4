import pytest

from crawler.cookies import MAX_COOKIES, MAX_HEADER_BYTES, CookieJar

NOW = 1_700_000_000.0


def sent(jar: CookieJar, url: str, now: float = NOW) -> str:
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return jar.header(host, slash + path or "/", scheme == "https", now)


def jar_of(*set_cookies: str, url: str = "https://www.example.cn/a/b") -> CookieJar:
    jar = CookieJar()
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    jar.store(set_cookies, host, slash + path, scheme == "https", NOW)
    return jar


def test_a_cookie_goes_back_to_its_host_and_to_no_other() -> None:
    jar = jar_of("id=7; Path=/")
    assert sent(jar, "https://www.example.cn/") == "id=7"
    for other in ("https://example.cn/", "https://a.www.example.cn/", "https://other.cn/"):
        assert sent(jar, other) == ""


def test_a_domain_cookie_goes_to_the_sub_domains() -> None:
    jar = jar_of("id=7; Path=/; Domain=.Example.cn")
    for host in ("example.cn", "www.example.cn", "a.b.example.cn"):
        assert sent(jar, f"https://{host}/") == "id=7"
    assert sent(jar, "https://badexample.cn/") == ""


@pytest.mark.parametrize("domain", ["cn", "com.cn", "other.cn", "ww.example.com.cn", "a.www.example.com.cn"])
def test_a_cookie_for_a_public_suffix_or_a_foreign_domain_is_ignored(domain: str) -> None:
    jar = jar_of(f"id=7; Domain={domain}", url="https://www.example.com.cn/")
    assert len(jar) == 0


def test_an_address_takes_cookies_for_itself_alone() -> None:
    jar = jar_of("id=7; Domain=127.0.0.1; Path=/", "no=1; Domain=0.0.1", url="http://127.0.0.1/")
    assert sent(jar, "http://127.0.0.1/") == "id=7"
    assert sent(jar, "http://9.127.0.0.1/") == ""


def test_paths_count_by_whole_segments_and_longer_ones_come_first() -> None:
    jar = jar_of("root=1; Path=/", "a=2; Path=/a", "own=3")
    assert sent(jar, "https://www.example.cn/a/c?x=/a") == "a=2; own=3; root=1"
    assert sent(jar, "https://www.example.cn/ab") == "root=1"


def test_a_secure_cookie_is_neither_set_nor_sent_in_the_clear() -> None:
    assert sent(jar_of("s=1; Secure; Path=/"), "http://www.example.cn/") == ""
    assert len(jar_of("s=1; Secure", url="http://www.example.cn/")) == 0


def test_prefixes_promise_what_they_say() -> None:
    jar = jar_of("__Host-a=1; Secure", "__Host-b=2; Secure; Path=/", "__Secure-c=3", "__Secure-d=4; Secure; Path=/")
    assert sent(jar, "https://www.example.cn/a/b") == "__Host-b=2; __Secure-d=4"


@pytest.mark.parametrize(
    "end",
    [
        "Max-Age=0",
        "max-age=-5; expires=Wed, 01 Jan 2098 00:00:00 GMT",
        "Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "Expires=Thu, 01-Jan-1970 00:00:10 GMT",
        "Expires=Thursday, 01-Jan-70 00:00:00 GMT",
    ],
)
def test_a_cookie_whose_time_is_over_is_dropped(end: str) -> None:
    jar = jar_of("id=7; Path=/")
    jar.store([f"id=8; Path=/; {end}"], "www.example.cn", "/", True, NOW)
    assert len(jar) == 0


def test_a_cookie_lives_as_long_as_it_says() -> None:
    jar = jar_of("id=7; Path=/; Max-Age=60")
    assert sent(jar, "https://www.example.cn/", NOW + 59) == "id=7"
    assert sent(jar, "https://www.example.cn/", NOW + 60) == ""


def test_a_date_that_cannot_be_read_makes_a_session_cookie() -> None:
    assert sent(jar_of("id=7; Path=/; Expires=tomorrow"), "https://www.example.cn/") == "id=7"


@pytest.mark.parametrize("rubbish", ["", ";", "=", "a=\x01", "a=" + "x" * 5000, "  ; Path=/"])
def test_rubbish_is_ignored(rubbish: str) -> None:
    assert len(jar_of(rubbish)) == 0


def test_a_jar_and_a_header_never_grow_beyond_their_limits() -> None:
    jar = jar_of(*(f"n{n}={'x' * 100}; Path=/" for n in range(1000)))
    assert len(jar) == MAX_COOKIES
    assert 0 < len(sent(jar, "https://www.example.cn/")) <= MAX_HEADER_BYTES
