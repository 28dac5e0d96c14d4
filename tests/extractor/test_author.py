"""Who wrote it, and who did not."""

from __future__ import annotations

import pytest

BODY = "<p>清晨的河面上浮着一层薄雾，渡船的马达声从对岸慢慢传来。</p>"


def test_an_editor_is_not_the_author(read_case):
    assert read_case("02").author is None


def test_a_plain_label_names_the_author(read_case):
    assert read_case("04").author == "李在山"


@pytest.mark.parametrize(
    ("line", "author"),
    [
        ("作者：李在山 来源：河湾时报", "李在山"),
        ("来源：河湾时报　作者: 李在山　编辑：王五", "李在山"),
        ("文/李在山", "李在山"),
        ("记者：李在山、赵一", "李在山、赵一"),
        ("By Jane Doe | 5 March 2024", "Jane Doe"),
        ("责任编辑：张申", None),
        ("编辑：张申 校对：李四", None),
        ("作者：admin", None),
        ("作者：佚名", None),
        ("来源：新华网", None),
        ("By clicking here you agree to everything.", None),
    ],
)
def test_bylines(read, line, author):
    assert read(f"<body><h1>题</h1><div class='info'>{line}</div>{BODY}</body>").author == author


def test_the_reporter_in_brackets_signs_the_text(read):
    assert read(f"<body><h1>题</h1>{BODY}<p>渡船今日停航。（本报记者 李在山）</p></body>").author == "李在山"


def test_structured_data_name_the_author(read):
    data = '<script type="application/ld+json">{"@type":"Article","author":{"@type":"Person","name":"李在山"}}</script>'
    assert read(f"<html><head>{data}</head><body>{BODY}</body></html>").author == "李在山"


def test_a_commenter_is_not_the_author(read):
    comment = '<div class="comment-item"><span class="author">过路人</span><p>说得好。</p></div>'
    assert read(f"<body><h1>题</h1>{BODY}{comment}</body>").author is None
