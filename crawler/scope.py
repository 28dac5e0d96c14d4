"""Which URLs belong to a site: a found URL in, a reason for refusal (or None) out. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from crawler.records import CrawlUrl, LinkKind, Rejection, SiteSettings
from crawler.urls import host_of, normalize, one_spelling, registrable_domain, urlkey

# What no page is, told by the name alone. Documents (pdf, docx, …) and data (xml, json) are left to their content.
_BINARY_NAMES: Final = re.compile(
    r"""/[^/:]*\.(?:
        jpe?g|jpe|jfif|png|gif|webp|avif|bmp|ico|cur|svgz?|tiff?|heic|psd|eps|dwg
        |zip|rar|7z|gz|tgz|bz2|tbz2?|xz|txz|zst|lz4|lzma|tar|cab|arj|jar|war|ear
        |deb|rpm|apk|ipa|iso|img|dmg|pkg|msi|exe|dll|bin
        |mp3|m4a|aac|ogg|oga|opus|flac|wav|wma|midi?|amr|ape|ra|ram
        |mp4|m4v|mkv|webm|avi|mov|qt|wmv|flv|f4v|swf|mpe?g|ogv|3gp|rm|rmvb|m3u8?|asf|asx
        |wasm|woff2?|ttf|otf|eot|torrent|pyc|sqlite|mdb|pcap
    )
    |/(?-i:[^/:A-Z])[^/:]*\.(?:css|less|scss|m?js|map)  # and not the article Node.js
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Scope:
    """The scope of one site: hosts of its seeds, and what its settings add and take away.

    A host is a name and a port; the default ports of http and https count as one. `extra_hosts` are those that were
    learned since (a seed that redirects to `www.`).
    """

    def __init__(self, settings: SiteSettings, extra_hosts: frozenset[str] = frozenset()) -> None:
        """Raises BadUrl for a seed or host that could never be fetched."""
        seeds = [normalize(seed) for seed in settings.seeds]
        exact = [host for host in settings.scope.hosts if not host.startswith("*.")]
        self._seed_hosts = frozenset(_family(host_of(seed)) for seed in seeds)
        self._hosts = self._seed_hosts | {_family(host) for host in extra_hosts} | {_host_setting(h) for h in exact}
        self._domains = tuple(_host_setting(h[2:]) for h in settings.scope.hosts if h.startswith("*."))
        self._seen_hosts: dict[str, bool] = {}
        self._seed_keys = frozenset(urlkey(seed) for seed in seeds)
        self._folders = tuple(_folder(seed) for seed in seeds) if settings.scope.prefix else ()
        self._include = _glob(settings.scope.include)
        self._exclude = _glob(settings.scope.exclude)
        self._max_depth = settings.scope.max_depth

    def refusal(self, target: CrawlUrl) -> Rejection | None:
        """Why a URL is not crawled; None if it is. Seeds and sitemaps only have to stay on the site's hosts."""
        if not self._has_host(target.host):
            return Rejection.SCOPE
        if target.kind in (LinkKind.SEED, LinkKind.SITEMAP) or target.urlkey in self._seed_keys:
            return None
        path = _path_and_query(target.urlkey)
        if self._exclude and self._exclude.fullmatch(path):
            return Rejection.EXCLUDED
        if self._include and not self._include.fullmatch(path):
            return Rejection.SCOPE
        if self._folders and not self._is_under_a_seed(target.host, path):
            return Rejection.SCOPE
        if _has_binary_name(path):
            return Rejection.TYPE
        if self._max_depth is not None and target.depth > self._max_depth:
            return Rejection.DEPTH
        return None

    def admits_redirect_of_seed(self, url: str) -> bool:
        """Whether a seed that redirects there still means this site: http to https, with `www.` or without."""
        host = _family(host_of(url))
        if host in self._seed_hosts:
            return True
        twin = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
        return twin in self._seed_hosts and registrable_domain(host) == registrable_domain(twin)

    def _has_host(self, host: str) -> bool:
        seen = self._seen_hosts.get(host)
        if seen is None:
            family = _family(host)
            seen = family in self._hosts or any(family.endswith("." + domain) for domain in self._domains)
            self._seen_hosts[host] = seen
        return seen

    def _is_under_a_seed(self, host: str, path: str) -> bool:
        family = _family(host)
        return any(path.startswith(folder) and family in self._hosts for folder in self._folders)


def _has_binary_name(path: str) -> bool:
    document = path.partition("?")[0]
    return _BINARY_NAMES.fullmatch(document, document.rindex("/")) is not None


def _family(host: str) -> str:
    """`example.cn:443` and `example.cn:80` are one host in scope."""
    return host[:-4] + ":80" if host.endswith(":443") else host


def _host_setting(host: str) -> str:
    """`例子.cn`, `example.cn:8080` as the owner writes them; a bare name means the default ports."""
    return _family(host_of(normalize(f"http://{host}/")))


def _path_and_query(key: str) -> str:
    return key[key.index("/", key.index("//") + 2) :].partition("#")[0]


def _folder(seed: str) -> str:
    path = _path_and_query(urlkey(seed)).partition("?")[0]
    return path[: path.rindex("/") + 1]


def _glob(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """One pattern for all: `*` stands for anything, everything else for itself, in the spelling of a urlkey."""
    alternatives = [
        ".*".join(re.escape(one_spelling(piece)) for piece in _rooted(pattern).split("*")) for pattern in patterns
    ]
    return re.compile("|".join(alternatives), re.DOTALL) if alternatives else None


def _rooted(pattern: str) -> str:
    return pattern if pattern.startswith(("/", "*")) else f"/{pattern}"
