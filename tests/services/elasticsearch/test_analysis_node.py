"""The plugin's components on the real node: settings, offsets, phrases, highlights."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.config import Settings
from services.elastic import ElasticUser, credentials

pytestmark = pytest.mark.node

USER_WORDS = ["*ST舜船", "sql server", "軟體定義 100 n"]
SYNONYMS = ["北大, 北京大学", "番茄 => 西红柿"]
DOCUMENTS = {
    "trad": "我在北京大學研究軟體定義網路",
    "st": "【*ST舜船】使用 SQL Server，买ＵＳＢ３.０",
    "emoji": "😀𠮷野家的\r\n软件包，依赖关系㍿",
    "tomato": "西红柿炒鸡蛋",
}

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(node_settings: Settings) -> Iterator[Ask]:
    """Send a request to an index with all of the plugin's components."""
    writer = credentials(node_settings, ElasticUser.WRITER)
    token = base64.b64encode(f"{writer.user}:{writer.password}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}

    def ask(method: str, path: str, body: object) -> dict[str, Any]:
        url = f"{writer.url}/{node_settings.index_prefix}analysis{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content: dict[str, Any] = json.load(answer)
        return content

    ask("PUT", "", index_body())
    for key, text in DOCUMENTS.items():
        ask("PUT", f"/_doc/{key}?refresh", {"words": text})
    yield ask


def index_body() -> dict[str, Any]:
    tokenizers = {
        "index": {"type": "jieba_index", "user_words": USER_WORDS},
        "search": {"type": "jieba_search", "user_words": USER_WORDS, "hmm": "false"},
        "all": {"type": "jieba_all", "user_words": USER_WORDS},
        "hmm": {"type": "jieba_search", "hmm": True},
    }
    synonyms = {"type": "chinese_synonym", "synonyms": SYNONYMS}
    filters = {
        "search": {**synonyms, "user_words": USER_WORDS},
        "bigrams": {**synonyms, "tokenizer": "chinese_bigram"},
        "characters": {**synonyms, "tokenizer": "chinese_char"},
    }
    chains = {
        "index": ("index", []),
        "search": ("search", ["search"]),
        "all": ("all", []),
        "hmm": ("hmm", []),
        "bigrams": ("chinese_bigram", []),
        "bigrams_search": ("chinese_bigram", ["bigrams"]),
        "characters": ("chinese_char", []),
        "characters_search": ("chinese_char", ["characters"]),
    }
    analyzers = {
        name: {"char_filter": ["chinese_fold"], "tokenizer": tokenizer, "filter": ["lowercase", *more]}
        for name, (tokenizer, more) in chains.items()
    }

    def text(analyzer: str, search_analyzer: str) -> dict[str, Any]:
        return {
            "type": "text",
            "analyzer": analyzer,
            "search_analyzer": search_analyzer,
            "index_options": "offsets",
        }

    fields = {"bigrams": text("bigrams", "bigrams_search"), "characters": text("characters", "characters_search")}
    return {
        "settings": {
            "number_of_replicas": 0,
            "analysis": {"tokenizer": tokenizers, "filter": filters, "analyzer": analyzers},
        },
        "mappings": {"properties": {"words": {**text("index", "search"), "fields": fields}}},
    }


@pytest.mark.parametrize("analyzer", ["index", "search", "all", "hmm", "bigrams", "characters"])
def test_tokens_come_from_where_their_offsets_say(ask: Ask, analyzer: str) -> None:
    texts = list(DOCUMENTS.values())
    whole = "\n".join(texts)
    units = whole.encode("utf-16-le")
    for asked in (whole, texts):
        tokens = ask("POST", "/_analyze", {"analyzer": analyzer, "text": asked})["tokens"]
        starts = [token["start_offset"] for token in tokens]
        assert starts == sorted(starts)
        for token in tokens:
            source = units[2 * token["start_offset"] : 2 * token["end_offset"]].decode("utf-16-le")
            assert source, token
            if source.isascii():
                assert source.lower() == token["token"]


@pytest.mark.parametrize(
    ("field", "query", "document", "marked"),
    [
        ("words", "北京大学", "trad", "我在<em>北京大學</em>研究軟體定義網路"),
        ("words", "北大", "trad", "我在<em>北京大學</em>研究軟體定義網路"),
        ("words.bigrams", "北大", "trad", "我在<em>北京大學</em>研究軟體定義網路"),
        ("words", "软体定义", "trad", "我在北京大學研究<em>軟體定義</em>網路"),
        ("words", "番茄", "tomato", "<em>西红柿</em>炒鸡蛋"),
        ("words", "*st舜船", "st", "【<em>*ST舜船</em>】使用 SQL Server，买ＵＳＢ３.０"),
        ("words", "sql server", "st", "【*ST舜船】使用 <em>SQL Server</em>，买ＵＳＢ３.０"),
        ("words.characters", "usb3.0", "st", "【*ST舜船】使用 SQL Server，买<em>ＵＳＢ３.０</em>"),
        ("words", "軟件包 依賴", "emoji", "😀𠮷野家的\r\n<em>软件包，依赖</em>关系㍿"),
        ("words.bigrams", "𠮷野家", "emoji", "😀<em>𠮷野家</em>的\r\n软件包，依赖关系㍿"),
        ("words.bigrams", "株式会社", "emoji", "😀𠮷野家的\r\n软件包，依赖关系<em>㍿</em>"),
    ],
)
def test_a_phrase_is_found_and_marked_in_the_original(
    ask: Ask, field: str, query: str, document: str, marked: str
) -> None:
    body = {
        "query": {"match_phrase": {field: query}},
        "highlight": {"fields": {field: {"number_of_fragments": 0}}},
    }
    hits = ask("POST", "/_search", body)["hits"]["hits"]
    assert [(hit["_id"], hit["highlight"][field]) for hit in hits] == [(document, [marked])]
