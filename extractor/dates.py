"""When a page was published: dates as Chinese and English pages write them, and where on a page they stand.

`parse_date` reads one value (a meta tag, a header); `find_date` the first date in a run of text; `published_at`
chooses on a whole page. All rather say nothing than guess: no year alone, no day without its year, nothing later
than the capture, nothing older than the web, no copyright year. A local time without a zone gives its date only.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from extractor.metadata import Metadata
from extractor.page import Block, Page, one_line
from extractor.records import PublishedAt

WEB_BEGAN = date(1991, 8, 6)
LATEST_ZONE = timedelta(hours=14)
"""The day begins up to so much earlier somewhere than in UTC."""
CHINA = timezone(timedelta(hours=8))
"""今天 and 昨天 are days of the reader for whom the page was written."""
MAX_BYLINE_CHARS = 120
"""A block longer than this is prose, where dates belong to the story."""
MAX_BYLINE_REST_CHARS = 40
"""What may stand beside an unlabelled date (source, author, number of readers)."""

_DIGITS = str.maketrans("〇零○一二三四五六七八九", "000123456789")
_TENS = re.compile(r"([1-9]?)十([1-9]?)")
_CHINESE_DATE = re.compile(
    r"([〇零○一二三四五六七八九]{4})\s*年\s*([一二三四五六七八九十〇零]{1,3})\s*月\s*([一二三四五六七八九十〇零]{1,3})\s*[日号號]"
)
_YEAR_FIRST = re.compile(
    r"(?<![\d.])((?:19|20)\d\d)\s*(?:年\s*(\d{1,2})\s*月\s*(\d{1,2})(?!\d)|([-/.])\s*(\d{1,2})\s*\4\s*(\d{1,2})(?![\d]))"
)
_REPUBLIC = re.compile(r"(?:民国|民國|中華民國|中华民国)\s*(\d{1,3})\s*年\s*(\d{1,2})\s*月\s*(\d{1,2})\s*[日号號]")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY_MONTH_YEAR = re.compile(rf"(?<!\d)(\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH},?\s+((?:19|20)\d\d)(?!\d)", re.IGNORECASE)
_MONTH_DAY_YEAR = re.compile(rf"\b{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?,?\s+((?:19|20)\d\d)(?!\d)", re.IGNORECASE)
_COMPACT = re.compile(r"(?<!\d)((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?:\d{4}|\d{6})?(?!\d)")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:[.,]\d+)?\s*(Z|[+-]\d\d:?\d\d)(?!\d)")
_EPOCH = re.compile(r"1?\d{9}(?:\d{3})?")
_AGO = re.compile(r"(\d{1,3}|半)\s*个?\s*(秒|分钟|分鐘|小时|小時|天|日|周|週)(?:钟|鐘)?\s*[之以]?前")
_AGO_ENGLISH = re.compile(r"\b(\d{1,3}|an?)\s+(second|minute|hour|day|week)s?\s+ago\b", re.IGNORECASE)
_DAY_WORD = re.compile(r"今天|今日|昨天|昨日|前天|刚刚|剛剛|\b(?:today|yesterday|just now)\b", re.IGNORECASE)
_UNITS = {
    "秒": timedelta(seconds=1),
    "second": timedelta(seconds=1),
    "分钟": timedelta(minutes=1),
    "分鐘": timedelta(minutes=1),
    "minute": timedelta(minutes=1),
    "小时": timedelta(hours=1),
    "小時": timedelta(hours=1),
    "hour": timedelta(hours=1),
    "天": timedelta(days=1),
    "日": timedelta(days=1),
    "day": timedelta(days=1),
    "周": timedelta(weeks=1),
    "週": timedelta(weeks=1),
    "week": timedelta(weeks=1),
}
_DAYS_BACK = {"今天": 0, "今日": 0, "today": 0, "昨天": 1, "昨日": 1, "yesterday": 1, "前天": 2}

_META_NAMES = (
    "article:published_time", "og:published_time", "og:article:published_time", "datepublished", "date_published",
    "pubdate", "publishdate", "publish_date", "publish-date", "publishtime", "publish_time", "pub_date", "pubtime",
    "apub:time", "article:create_at", "weibo:article:create_at", "citation_publication_date", "citation_date",
    "dc.date.issued", "dcterms.issued", "dcterms.created", "dc.date", "dc.date.created", "sailthru.date",
    "parsely-pub-date", "releasedate", "og:release_date", "publication_date", "date", "publicationdate",
)  # fmt: skip
_LABEL = re.compile(
    r"(?:发布|發布|发表|發表|发稿|更新|编辑|公布|刊登|上传|创建|印发|成文|添加|录入)\s*(?:时间|時間|日期|于|於|日)"
    r"|(?:时间|時間|日期)\s*[:：]|\b(?:published|posted|date|updated)\b",
    re.IGNORECASE,
)
_DATE_NAME = re.compile(r"date|time|pub|info|meta|byline|source|laiyuan|shijian|riqi|post|tail", re.IGNORECASE)
_COPYRIGHT = re.compile(r"©|\(c\)|copyright|版权|版權|all rights reserved|备案|备\d", re.IGNORECASE)
_NOT_PUBLISHED = re.compile(
    r"截止|截至|有效期|到期|过期|开始|结束|开幕|出生|生日|注册|expire|valid|deadline", re.IGNORECASE
)


def published_at(page: Page, metadata: Metadata, captured_at: datetime) -> PublishedAt | None:
    """The page's own date. What it states for machines comes first, then what it shows, then its address."""
    stated = (parse_date(value, captured_at) for value in _stated(page, metadata))
    shown = _shown(page, captured_at)
    addressed = (_date_of_url(page.url, captured_at),)
    return next((moment for moments in (stated, shown, addressed) for moment in moments if moment), None)


def parse_date(value: str, captured_at: datetime) -> PublishedAt | None:
    """A value that should be nothing but a date, in any of the forms in which sites write it."""
    text = unicodedata.normalize("NFKC", one_line(value))
    if not 4 <= len(text) <= 80 or text.startswith("-"):
        return None
    if _EPOCH.fullmatch(text):
        seconds = int(text) / (1000 if len(text) > 10 else 1)
        return _plausible(datetime.fromtimestamp(seconds, UTC), captured_at)
    compact = _COMPACT.match(text)
    if compact:
        return _plausible(_day(*compact.groups()), captured_at)
    return find_date(text, captured_at) or _rfc_date(text, captured_at)


def find_date(text: str, captured_at: datetime) -> PublishedAt | None:
    """The first plausible date in a run of text."""
    text = unicodedata.normalize("NFKC", text)
    found = (_plausible(moment, captured_at) for read in _READERS for moment in read(text, captured_at))
    return next((moment for moment in found if moment), None)


def _stated(page: Page, metadata: Metadata) -> Iterator[str]:
    yield from metadata.structured("datePublished")
    for name in _META_NAMES:
        yield from metadata.meta(name)
    if page.root is None:
        return
    for element in page.root.xpath("//*[@itemprop='datePublished' or @itemprop='datecreated'][1]"):
        yield element.get("content") or element.get("datetime") or "".join(element.itertext())
    yield from page.root.xpath("//time[@pubdate]/@datetime")


def _shown(page: Page, captured_at: datetime) -> Iterator[PublishedAt | None]:
    blocks = [block for block in page.blocks if _may_date(block)]
    for is_likely in (_has_label, _has_time_element, _has_date_name, _is_byline):
        for block in blocks:
            if is_likely(block):
                yield find_date(_dated_text(block), captured_at)


def _may_date(block: Block) -> bool:
    if len(block.text) > MAX_BYLINE_CHARS or block.furniture or block.link_share > 0.6:
        return False
    if _is_list_item(block):
        return False
    return not (_COPYRIGHT.search(block.text) or _NOT_PUBLISHED.search(block.text))


def _is_list_item(block: Block) -> bool:
    """A row of a list of links: its date is that of the page it leads to."""
    return block.element.tag in ("li", "td", "dd") and block.link_chars > 8


def _has_label(block: Block) -> bool:
    return _LABEL.search(block.text) is not None


def _has_time_element(block: Block) -> bool:
    return block.element.find(".//time") is not None


def _has_date_name(block: Block) -> bool:
    names = [f"{element.get('class', '')} {element.get('id', '')}" for element in (block.element, *block.element)]
    return any(_DATE_NAME.search(name) for name in names) and _is_byline(block)


def _is_byline(block: Block) -> bool:
    """Hardly more than a date: a line under a title, not a sentence that mentions a day."""
    rest = _YEAR_FIRST.sub("", unicodedata.normalize("NFKC", block.text))
    return len(rest) <= MAX_BYLINE_REST_CHARS and not rest.rstrip().endswith(("。", "！", "？", ";", "；", "，"))


def _dated_text(block: Block) -> str:
    """From the label on, if there is one; a time element's machine form before what it shows."""
    element = block.element.find(".//time")
    if element is not None and element.get("datetime"):
        return str(element.get("datetime"))
    label = _LABEL.search(block.text)
    return block.text[label.start() :] if label else block.text


def _date_of_url(url: str, captured_at: datetime) -> date | None:
    """Sites that put the day into the address: /2024/03/05/, /2024-03-05/, /20240305/, t20240305_123.html."""
    path = urlsplit(url).path
    match = re.search(r"/((?:19|20)\d\d)[-/]?(0[1-9]|1[0-2])[-/]?(0[1-9]|[12]\d|3[01])(?=[/_.-]|$)", path)
    match = match or re.search(r"/t((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])_", path)
    moment = _plausible(_day(*match.groups()), captured_at) if match else None
    return moment if not isinstance(moment, datetime) else moment.date()


def _instants(text: str, _captured_at: datetime) -> Iterator[datetime | None]:
    for match in _INSTANT.finditer(text):
        day, time, zone = match.groups()
        zone = "+00:00" if zone == "Z" else zone if ":" in zone else f"{zone[:3]}:{zone[3:]}"
        try:
            yield datetime.fromisoformat(f"{day}T{time}{zone}").astimezone(UTC)
        except (ValueError, OverflowError):
            yield None


def _year_first(text: str, _captured_at: datetime) -> Iterator[date | None]:
    for match in _YEAR_FIRST.finditer(text):
        year, month, day, _, month2, day2 = match.groups()
        yield _day(year, month or month2, day or day2)


def _in_chinese_numerals(text: str, _captured_at: datetime) -> Iterator[date | None]:
    for match in _CHINESE_DATE.finditer(text):
        year, month, day = (_arabic(part) for part in match.groups())
        yield _day(year, month, day)


def _of_the_republic(text: str, _captured_at: datetime) -> Iterator[date | None]:
    for match in _REPUBLIC.finditer(text):
        yield _day(str(int(match[1]) + 1911), match[2], match[3])


def _in_english(text: str, _captured_at: datetime) -> Iterator[date | None]:
    for match in _DAY_MONTH_YEAR.finditer(text):
        yield _day(match[3], _month(match[2]), match[1])
    for match in _MONTH_DAY_YEAR.finditer(text):
        yield _day(match[3], _month(match[1]), match[2])


def _relative(text: str, captured_at: datetime) -> Iterator[PublishedAt | None]:
    for match in (*_AGO.finditer(text), *_AGO_ENGLISH.finditer(text)):
        amount = 0.5 if match[1] == "半" else 1 if match[1][0] in "aA" else int(match[1])
        unit = _UNITS[match[2].lower()]
        moment = captured_at.astimezone(UTC) - amount * unit
        yield moment if unit < timedelta(days=1) else moment.astimezone(CHINA).date()
    for match in _DAY_WORD.finditer(text):
        back = _DAYS_BACK.get(match[0].lower())
        yield captured_at if back is None else (captured_at.astimezone(CHINA) - timedelta(days=back)).date()


_READERS: tuple[Callable[[str, datetime], Iterable[PublishedAt | None]], ...] = (
    _instants,
    _year_first,
    _in_chinese_numerals,
    _of_the_republic,
    _in_english,
    _relative,
)


def _arabic(numerals: str) -> str:
    """`二〇二四`, `十一`, `二十` as digits."""
    digits = numerals.translate(_DIGITS)
    return _TENS.sub(lambda match: f"{match[1] or 1}{match[2] or 0}", digits)


def _month(name: str) -> str:
    return str(_MONTHS.index(name[:3].lower()) + 1)


def _day(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def _rfc_date(text: str, captured_at: datetime) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        return None
    plausible = _plausible(moment.astimezone(UTC), captured_at)
    return plausible if isinstance(plausible, datetime) else None


def _plausible(moment: PublishedAt | None, captured_at: datetime) -> PublishedAt | None:
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return moment if moment.date() >= WEB_BEGAN and moment <= captured_at else None
    return moment if WEB_BEGAN <= moment <= (captured_at + LATEST_ZONE).astimezone(UTC).date() else None
