"""URLs as the crawler knows them: what is sent, and the key by which a page is recognised again. Pure functions.

`normalize` gives the URL that is sent, by the WHATWG URL standard (the path in UTF-8, the query in the page's own
encoding, the host in ASCII), without fragment, credentials and trailing dot of the host.

`urlkey` gives a coarser form for duplicates. On top of `normalize` it
- writes each percent-encoding one way (capital hex, letters and digits bare, odd characters encoded), byte by byte,
  so that GBK or broken sequences survive;
- drops empty parameters, and a query that is empty then;
- drops parameters that only tell where the visitor came from: `utm_*`, `pk_*`, `mtm_*`, `hsa_*`, the click
  identifiers of advertisers (gclid, fbclid, msclkid, bd_vid, …), Alibaba's spm and scm, Baidu's hm*;
- drops session identifiers, each of which would multiply the site: `;jsessionid=…` and the like in the path,
  ASP.NET's `(S(…))` segments, PHPSESSID, JSESSIONID, ASPSESSIONID*, CFID, CFTOKEN, osCsid, zenid in the query, and
  sid, s, session, session_id … where the value looks like one (`sid=12` is content on many sites).

It keeps the order of parameters, `www.`, the scheme, doubled and trailing slashes, since sites exist that tell them
apart. Both are idempotent. A fragment that is a route (`#!…`, `#/…`) is part of the key if it is still on the URL.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote

import ada_url
from publicsuffixlist import PublicSuffixList

from crawler.errors import BadUrl

MAX_URL_CHARS: Final = 2_048
"""Longer ones are traps or scripts gone wrong; sitemaps allow 2,048 as well."""

# A reference that the standard leaves as it is: no dot segments (looked for apart), nothing to encode.
_CLEAN: Final = re.compile(
    r"""(https?://[^/?\#\\@\x00-\x20]+(?=[/?\#]|$))?  # scheme and host, judged once by ada
        ([\w\-.~!$&'()*+,;=:@/%|\[\]]*)               # path
        (\?[\w\-.~!$&()*+,;=:@/?%|\[\]{}^`\\]*)?      # query
        (\#.*)?""",
    re.ASCII | re.VERBOSE | re.DOTALL,
)
_SCHEME: Final = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-]*):")
_KEY_IS_URL: Final = re.compile(
    r"(?:http://[^/:]+(?::(?!80/)\d+)?|https://[^/:]+(?::(?!443/)\d+)?)/[\w\-.~!$&'*+,=:@/]*", re.ASCII
)
_PERCENT: Final = re.compile(r"%([0-9A-Fa-f]{2})?|[^\w\-.~!$&'()*+,;=:@/?]", re.ASCII)
_UNRESERVED: Final = re.compile(r"[\w\-.~]", re.ASCII)
_PATH_SESSION: Final = re.compile(
    r";(?:jsessionid|phpsessid|sessionid|session_id|sid|aspsessionid\w*)=[^/;]*|/\([A-Z]\([0-9A-Za-z]{20,}\)\)(?=/)",
    re.ASCII | re.IGNORECASE,
)
_TRACKING: Final = re.compile(
    r"""(?:utm_\w+|pk_(?:campaign|kwd|source|medium|content)|mtm_\w+|hsa_\w+|_hs(?:enc|mi)|__hs\w+|mc_[ce]id|_ga|_gl|_gac
        |gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|li_fat_id|igshid|igsh|srsltid|_openstat
        |mkt_tok|vero_id|oly_(?:anon|enc)_id|spm|scm|spm_id_from|vd_source|bd_vid|hm(?:sr|pl|cu|kw|ci)|gdt_vid|qz_gdt
        |wt_mc|s_cid|ref_src)""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)
_SESSION: Final = re.compile(
    r"phpsessid|jsessionid|aspsessionid\w*|asp\.net_sessionid|cfid|cftoken|oscsid|zenid", re.ASCII | re.IGNORECASE
)
_MAYBE_SESSION: Final = re.compile(r"s|sid|sess|sessid|session|sessionid|session_id|session-id", re.IGNORECASE)
_LOOKS_RANDOM: Final = re.compile(r"(?=.*\d)(?:[0-9a-f]{16,}|(?=.*[A-Za-z])[0-9A-Za-z\-]{20,})", re.IGNORECASE)
_ROUTE: Final = re.compile(r"[!/]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_UTF8_OUTPUT: Final = frozenset({"utf-8", "utf8", "utf-16", "utf-16-le", "utf-16-be", "utf-16le", "utf-16be", "hz"})
"""Encodings whose pages send their queries in UTF-8 (WHATWG Encoding, "get an output encoding")."""


def normalize(url: str, base: str | None = None, encoding: str = "utf-8", *, keep_fragment: bool = False) -> str:
    """The absolute URL to send for a reference as written; raises BadUrl.

    `base` is an absolute URL, `encoding` that of the page the reference stands on.
    """
    clean = _CLEAN.fullmatch(url)
    fast = _normalize_clean(clean, base) if clean else None
    if fast is None:
        fast = _normalize_any(url, base, encoding)
    elif keep_fragment and clean and clean[4]:
        fast = _normalize_any(fast + clean[4], None, "utf-8")
    target = fast if keep_fragment else fast.partition("#")[0]
    if len(target) > MAX_URL_CHARS:
        raise BadUrl(f"the URL is longer than {MAX_URL_CHARS} characters: {_shown(target)}")
    return target


def from_header(value: str, base: str) -> str:
    """The URL of a Location (or Link, Refresh) header, whose bytes were read as latin-1; raises BadUrl.

    Bytes of 0x80 and more are percent-encoded as they are, whatever encoding the server meant.
    """
    escaped = "".join(char if char < "\x80" else f"%{ord(char):02X}" for char in value)
    return normalize(escaped, base)


def urlkey(url: str) -> str:
    """The canonical form for duplicates (see above) of a URL, normalised or not; raises BadUrl."""
    normalized = normalize(url, keep_fragment=True)
    if _KEY_IS_URL.fullmatch(normalized) and "/(" not in normalized:
        return normalized
    rest, _, fragment = normalized.partition("#")
    rest, _, query = rest.partition("?")
    origin_end = rest.index("/", rest.index("//") + 2)
    path = _PATH_SESSION.sub("", one_spelling(rest[origin_end:]))
    query = "&".join(filter(_tells_pages_apart, one_spelling(query).split("&")))
    key = rest[:origin_end] + path + ("?" + query if query else "")
    return key + "#" + fragment if _ROUTE.match(fragment) else key


def one_spelling(text: str) -> str:
    """Part of a path or query (a pattern's, say) with its percent-encoding as in a urlkey."""
    if not text.isascii():
        text = "".join(char if char < "\x80" else quote(char, errors="replace") for char in text)
    return _PERCENT.sub(_spell, text) if text else ""


def host_of(url: str) -> str:
    """Host and port of a normalised URL: `example.cn:443`, `[::1]:8080`."""
    end = url.find("/", url.find("//") + 2)
    return _host_and_port(url if end < 0 else url[:end])


def urlhash(key: str) -> bytes:
    """16 bytes that stand for a urlkey in the crawl database."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def document_id(key: str) -> str:
    """The `_id` of a urlkey's document in Elasticsearch."""
    return urlhash(key).hex()


@lru_cache(maxsize=4096)
def registrable_domain(host: str) -> str:
    """`www.gov.example.com.cn:80` -> `example.com.cn`; an address or a public suffix is its own domain."""
    name = host if host.startswith("[") else host.partition(":")[0]
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    if name.replace(".", "").isdigit():
        return name
    return _public_suffixes().privatesuffix(name) or name


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def _normalize_clean(clean: re.Match[str], base: str | None) -> str | None:
    """The quick way for the references that nine pages in ten use; None where the standard has more to say."""
    origin, path, query, _ = clean.groups()
    if "/." in path or "%2" in path or path.startswith("."):
        return None
    if origin:
        return _origin(origin) + (path or "/") + (query or "")
    if base is None:
        return None
    base_origin, folder, folder_and_file, base_query = _base_parts(base)
    if not path:
        return base_origin + folder_and_file + (query or base_query)
    if path[0] == "/":
        return None if path.startswith("//") else base_origin + path + (query or "")
    return None if ":" in path else base_origin + folder + path + (query or "")


@lru_cache(maxsize=4096)
def _origin(origin: str) -> str:
    """`HTTP://例子.测试:80` -> `http://xn--fsqu00a.xn--0zwm56d`."""
    return _without_extras(_parse(origin + "/"), origin)[:-1]


@lru_cache(maxsize=256)
def _base_parts(base: str) -> tuple[str, str, str, str]:
    """Origin, folder (with its slash), folder and file, and query of a base, which need not be normalised itself."""
    whole = _without_extras(_parse(base), base).partition("#")[0]
    document, question_mark, query = whole.partition("?")
    path_start = document.index("/", document.index("//") + 2)
    folder = document[path_start : document.rindex("/") + 1]
    return document[:path_start], folder, document[path_start:], question_mark + query


def _normalize_any(url: str, base: str | None, encoding: str) -> str:
    if len(url) > 4 * MAX_URL_CHARS:
        raise BadUrl(f"the URL is longer than {MAX_URL_CHARS} characters: {_shown(url)}")
    reference = _SURROGATES.sub("\ufffd", url)
    if not reference.isascii() and encoding.lower() not in _UTF8_OUTPUT:
        reference = _encode_query(reference, encoding)
    return _join(base, reference)


def _encode_query(reference: str, encoding: str) -> str:
    """The query's characters beyond ASCII in the page's encoding; what it lacks becomes `&#…;`, as in browsers."""
    before, hash_mark, fragment = reference.partition("#")
    path, question_mark, query = before.partition("?")
    if query.isascii():
        return reference
    try:
        pieces = [_encode_char(char, encoding) if char >= "\x80" else char for char in query]
    except LookupError:  # not an encoding that Python knows
        return reference
    return path + question_mark + "".join(pieces) + hash_mark + fragment


def _encode_char(char: str, encoding: str) -> str:
    try:
        encoded = char.encode(encoding)
    except UnicodeEncodeError:
        return f"%26%23{ord(char)}%3B"
    return "".join(chr(byte) if _is_left_bare(byte) else f"%{byte:02X}" for byte in encoded)


def _is_left_bare(byte: int) -> bool:
    """Second bytes of GBK and Big5 lie among ASCII; `#`, `%` and `&` are not among them."""
    return 0x20 < byte < 0x7F and byte not in b"\"#<>'"


@lru_cache(maxsize=8192)
def _join(base: str | None, reference: str) -> str:
    return _without_extras(_parse(reference, base), reference)


def _parse(reference: str, base: str | None = None) -> str:
    """The WHATWG parser's word, for http and https only."""
    try:
        parsed = ada_url.join_url(base, reference) if base is not None else ada_url.normalize_url(reference)
    except ValueError as exc:
        scheme = _SCHEME.match(reference)
        if scheme and scheme[1].lower() not in ("http", "https"):
            raise BadUrl(f"{scheme[1].lower()}: URLs are not crawled: {_shown(reference)}") from exc
        raise BadUrl(f"not a URL: {_shown(reference)}") from exc
    if not parsed.startswith(("http://", "https://")):
        raise BadUrl(f"{parsed.partition(':')[0]}: URLs are not crawled: {_shown(reference)}")
    return parsed


def _without_extras(parsed: str, reference: str) -> str:
    """Without credentials (secrets are no part of a page's name) and the trailing dot of the host."""
    start = parsed.index("//") + 2
    end = parsed.index("/", start)
    authority = parsed[start:end]
    host, colon, port = authority.rpartition("@")[2].partition(":")
    if host.startswith("["):
        host, colon, port = authority.rpartition("@")[2], "", ""
    if not host.strip(".") or len(host) > 253:
        raise BadUrl(f"not a host name: {_shown(reference)}")
    if host.endswith("."):
        # What is left may be an address in an odd spelling, which only the parser reads right.
        return _without_extras(_parse(parsed[:start] + host.rstrip(".") + colon + port + parsed[end:]), reference)
    return parsed[:start] + host + colon + port + parsed[end:]


def _spell(match: re.Match[str]) -> str:
    digits: str | None = match[1]
    if digits is None:
        # A bare % or an odd character; normalised text is ASCII.
        return f"%{ord(match[0]):02X}"
    char = chr(int(digits, 16))
    return char if _UNRESERVED.fullmatch(char) else f"%{digits.upper()}"


def _tells_pages_apart(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    if not parameter or _TRACKING.fullmatch(name) or _SESSION.fullmatch(name):
        return False
    return not (_MAYBE_SESSION.fullmatch(name) and _LOOKS_RANDOM.fullmatch(value))


@lru_cache(maxsize=4096)
def _host_and_port(origin: str) -> str:
    scheme, _, authority = normalize(origin).removesuffix("/").partition("://")
    if authority.rpartition("]")[2].rpartition(":")[2].isdigit() and ":" in authority.rpartition("]")[2]:
        return authority
    return f"{authority}:{443 if scheme == 'https' else 80}"


def _shown(url: str) -> str:
    return repr(url if len(url) <= 200 else url[:200] + "…")
