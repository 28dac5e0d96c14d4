import pytest

from crawler.errors import BadUrl
from crawler.records import CrawlUrl, LinkKind, Rejection, SiteScope, SiteSettings
from crawler.scope import Scope
from crawler.urls import host_of, normalize, urlkey


def _target(url: str, depth: int = 1, kind: LinkKind = LinkKind.LINK) -> CrawlUrl:
    url = normalize(url)
    return CrawlUrl(url, urlkey(url), host_of(url), site_id=1, run_id=1, depth=depth, kind=kind)


def _scope(*seeds: str, **settings: object) -> Scope:
    return Scope(SiteSettings(seeds or ("http://h.cn/",), scope=SiteScope(**settings)))  # type: ignore[arg-type]


def test_a_site_is_the_hosts_and_ports_of_its_seeds() -> None:
    scope = _scope("http://h.cn/a", "http://127.0.0.1:8080/")
    assert scope.refusal(_target("http://h.cn/x")) is None
    assert scope.refusal(_target("https://h.cn/x")) is None
    assert scope.refusal(_target("http://127.0.0.1:8080/x")) is None
    for foreign in (
        "http://h.cn:8080/",
        "http://www.h.cn/",
        "http://127.0.0.1:8081/",
        "http://hh.cn/",
        "http://x.h.cn/",
    ):
        assert scope.refusal(_target(foreign)) is Rejection.SCOPE


def test_more_hosts_are_allowed_by_name_port_or_domain() -> None:
    scope = _scope(hosts=("img.cn", "b.cn:8080", "*.d.cn", "例子.cn"))
    admitted = ("http://img.cn/", "https://img.cn/", "http://b.cn:8080/", "http://a.b.d.cn/", "http://例子.cn/")
    refused = ("http://img.cn:81/", "http://b.cn/", "http://xd.cn/", "http://d.cn/", "http://a.d.cn:81/")
    assert [scope.refusal(_target(url)) for url in admitted] == [None] * 5
    assert [scope.refusal(_target(url)) for url in refused] == [Rejection.SCOPE] * 5


def test_a_learned_host_belongs_to_the_site() -> None:
    settings = SiteSettings(("http://h.cn/",))
    assert Scope(settings, frozenset({"www.h.cn:443"})).refusal(_target("http://www.h.cn/")) is None


def test_patterns_are_over_path_and_query_and_the_case_counts() -> None:
    scope = _scope(
        "http://h.cn/start", include=("/news/*", "/list?page=*", "/新闻/*"), exclude=("*print=1*", "/news/old/*")
    )
    answers = {
        "/news/1": None,
        "/News/1": Rejection.SCOPE,
        "/list?page=2": None,
        "/listXpage=2": Rejection.SCOPE,
        "/other": Rejection.SCOPE,
        "/news/1?print=1": Rejection.EXCLUDED,
        "/news/old/1": Rejection.EXCLUDED,
        "/新闻/一": None,
        "/start": None,
    }
    assert {path: scope.refusal(_target(f"http://h.cn{path}")) for path in answers} == answers


def test_a_pattern_means_its_letters() -> None:
    scope = _scope(include=("/a[1].html", "b.html"))
    assert scope.refusal(_target("http://h.cn/a[1].html")) is None
    assert scope.refusal(_target("http://h.cn/a1.html")) is Rejection.SCOPE
    assert scope.refusal(_target("http://h.cn/b.html")) is None
    assert scope.refusal(_target("http://h.cn/bxhtml")) is Rejection.SCOPE


def test_a_prefix_is_the_folder_of_a_seed() -> None:
    scope = _scope("http://h.cn/docs/index.html", "http://h.cn/faq", prefix=True)
    assert scope.refusal(_target("https://h.cn/docs/a/b.html")) is None
    assert scope.refusal(_target("http://h.cn/other")) is None  # /faq lies in the folder /
    scope = _scope("http://h.cn/docs/index.html", prefix=True)
    assert scope.refusal(_target("http://h.cn/docsx/a")) is Rejection.SCOPE


@pytest.mark.parametrize(
    "path",
    ["/a.jpg", "/A.ZIP", "/x/y.mp4?size=1", "/s.css", "/app.min.js", "/f.woff2", "/a.tar.gz"],
)
def test_what_is_no_page_by_its_name_is_refused(path: str) -> None:
    assert _scope().refusal(_target(f"http://h.cn{path}")) is Rejection.TYPE


@pytest.mark.parametrize(
    "path",
    ["/a.pdf", "/a.docx", "/a", "/a.html", "/wiki/Node.js", "/wiki/File:A.jpg", "/a.jpg/", "/get?file=a.zip", "/a.php"],
)
def test_what_may_be_a_page_is_not(path: str) -> None:
    assert _scope().refusal(_target(f"http://h.cn{path}")) is None


def test_a_depth_is_the_last_that_is_crawled() -> None:
    scope = _scope(max_depth=2)
    assert scope.refusal(_target("http://h.cn/a", depth=2)) is None
    assert scope.refusal(_target("http://h.cn/a", depth=3)) is Rejection.DEPTH


def test_a_seed_needs_no_pattern() -> None:
    scope = _scope("http://h.cn/start.zip", include=("/news/*",), exclude=("/start*",), max_depth=0)
    assert scope.refusal(_target("http://h.cn/start.zip", depth=0, kind=LinkKind.SEED)) is None
    assert scope.refusal(_target("http://h.cn/start.zip", depth=5)) is None


def test_a_seed_that_moves_to_https_or_www_means_the_same_site() -> None:
    scope = _scope("http://h.com.cn/", "http://127.0.0.1:8080/")
    admitted = ("https://h.com.cn/", "https://www.h.com.cn/x", "http://127.0.0.1:8080/x")
    refused = ("http://other.com.cn/", "http://m.h.com.cn/", "http://www.h.com.cn:81/", "http://com.cn/")
    assert [scope.admits_redirect_of_seed(url) for url in admitted] == [True] * 3
    assert [scope.admits_redirect_of_seed(url) for url in refused] == [False] * 4
    assert _scope("http://www.h.cn/").admits_redirect_of_seed("https://h.cn/")


def test_a_host_that_cannot_be_one_is_said() -> None:
    with pytest.raises(BadUrl, match="not a URL: 'http://a b/'"):
        _scope(hosts=("a b",))
