"""The sample site, asked over HTTP as a crawler would: what is reachable, what is not, and in which bytes it comes."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import pytest

from services.sample_site.server import PAGES, Resource, SampleServer, is_unchanged, open_server, read_resource

BROKEN = {"/events/2024-photos.html"}
REDIRECTED = {"/tea/longjing.html": "/varieties/longjing.html"}
DISALLOWED = {"/drafts/2027-plan.html"}
GBK_PAGE = "/learn/chama-gudao.html"
BIG5_PAGE = "/hant/oriental-beauty.html"
SCRIPT_PAGE = "/garden/"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_html(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/html")


@dataclass
class Page(HTMLParser):
    """What a reader without scripts gets of a page: its links and its text."""

    html: str
    links: list[str] = field(default_factory=list)
    next_page: str | None = None
    words: list[str] = field(default_factory=list)
    hidden_in: str | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.links += [link for link in (attributes.get("href"), attributes.get("src")) if link]
        if attributes.get("rel") == "next":
            self.next_page = attributes["href"]
        if tag in ("script", "style"):
            self.hidden_in = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self.hidden_in:
            self.hidden_in = None

    def handle_data(self, data: str) -> None:
        if self.hidden_in is None:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def server() -> Iterator[SampleServer]:
    with open_server(0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def answers(server: SampleServer) -> dict[str, Answer]:
    """Every address of the site that the home page leads to, followed to the end."""
    found: dict[str, Answer] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = answer = ask(server, path)
        if answer.status == 301:
            waiting.append(answer.headers["location"])
        elif answer.status == 200 and answer.is_html:
            waiting += [urlsplit(urljoin(path, link)).path for link in internal_links(Page(decode(answer)))]
    return found


@pytest.fixture(scope="module")
def pages(answers: dict[str, Answer]) -> dict[str, Page]:
    """The HTML pages among them."""
    return {path: Page(decode(a)) for path, a in answers.items() if a.status == 200 and a.is_html}


def test_every_link_resolves_but_the_intended_ones(server: SampleServer, answers: dict[str, Answer]) -> None:
    assert {path for path, answer in answers.items() if answer.status == 404} == BROKEN
    redirected = {path: a.headers["location"] for path, a in answers.items() if a.status == 301}
    assert redirected == REDIRECTED
    assert {answer.status for answer in answers.values()} == {200, 301, 404}
    robots = read_robots(server)
    assert {path for path in answers if not robots.can_fetch("plumbline", path)} == DISALLOWED


def test_every_file_is_reachable_and_about_sixty_are_pages(pages: dict[str, Page]) -> None:
    files = {"/" + file.relative_to(PAGES).as_posix().removesuffix("index.html") for file in PAGES.rglob("*.html")}
    assert set(pages) == files
    assert 55 <= len(files - DISALLOWED) <= 70


def test_the_site_map_lists_exactly_what_may_be_crawled(server: SampleServer, pages: dict[str, Page]) -> None:
    origin = f"http://127.0.0.1:{server.server_port}"
    assert read_robots(server).site_maps() == [f"{origin}/sitemap.xml"]
    listed = re.findall(r"<loc>(.*?)</loc>", ask(server, "/sitemap.xml").body.decode())
    assert sorted(listed) == sorted(origin + path for path in set(pages) - DISALLOWED)


def test_the_site_names_the_address_under_which_it_was_asked(server: SampleServer) -> None:
    robots = ask(server, "/robots.txt", {"Host": "tea.test:81"}).body.decode()
    assert "Sitemap: http://tea.test:81/sitemap.xml" in robots
    robots = ask(server, "/robots.txt", {"Host": "<x>"}).body.decode()
    assert f"Sitemap: http://127.0.0.1:{server.server_port}/sitemap.xml" in robots


def test_no_page_needs_another_host(pages: dict[str, Page]) -> None:
    for path, page in pages.items():
        outside = [link for link in page.links if urlsplit(link).netloc or urlsplit(link).scheme not in ("", "mailto")]
        assert not outside, path


def test_one_page_each_is_in_gbk_and_big5_and_only_its_meta_says_so(answers: dict[str, Answer]) -> None:
    silent = {path for path, a in answers.items() if a.headers.get("content-type") == "text/html"}
    assert silent == {GBK_PAGE, BIG5_PAGE}
    for path, charset in ((GBK_PAGE, "gbk"), (BIG5_PAGE, "big5")):
        body = answers[path].body
        assert f'<meta http-equiv="Content-Type" content="text/html; charset={charset}">'.encode() in body
        with pytest.raises(UnicodeDecodeError):
            body.decode("utf-8")
        body.decode(charset)


def test_the_script_page_has_hardly_any_text_of_its_own(answers: dict[str, Answer], pages: dict[str, Page]) -> None:
    assert len(pages[SCRIPT_PAGE].text) < 20
    assert SCRIPT_PAGE in pages["/"].links
    assert b'fetch("observations.json")' in answers["/assets/garden.js"].body
    notes = json.loads((PAGES / "garden" / "observations.json").read_bytes())
    assert len(notes["intro"] + "".join(note["text"] for note in notes["notes"])) > 400


@pytest.mark.parametrize(
    ("word", "path"),
    [("倒春寒", None), ("背夫", GBK_PAGE), ("膨風茶", BIG5_PAGE), ("neifei", "/en/puer-wrapper.html")],
)
def test_the_words_to_try_stand_on_one_page_only(word: str, path: str | None, pages: dict[str, Page]) -> None:
    assert {found_on for found_on, page in pages.items() if word in page.html} == ({path} if path else set())
    in_data = word in (PAGES / "garden" / "observations.json").read_text("utf-8")
    assert in_data == (path is None)


@pytest.mark.parametrize(("listing", "count"), [("/varieties/", 12), ("/news/", 8), ("/events/", 5)])
def test_a_list_leads_through_its_pages_to_every_item(listing: str, count: int, pages: dict[str, Page]) -> None:
    items: set[str] = set()
    path: str | None = listing
    while path is not None:
        page = pages[path]
        items |= {urljoin(path, link) for link in page.links if not link.startswith("/")}
        path = urljoin(path, page.next_page) if page.next_page else None
    details = {item for item in items if item.startswith(listing) and not re.search(r"/(index_\d\.html)?$", item)}
    assert len(details - BROKEN) == count
    assert {item for item in pages if item.startswith(listing)} == (details - BROKEN) | {
        listing,
        f"{listing}index_2.html",
    }


def test_every_variety_states_the_same_facts(pages: dict[str, Page]) -> None:
    varieties = [path for path in pages if re.fullmatch(r"/varieties/[a-z-]+\.html", path)]
    for path in varieties:
        for label in ("产地：", "品类：", "发酵度：", "价格："):
            assert pages[path].text.count(label) == 1, (path, label)


def test_titles_are_distinct(pages: dict[str, Page]) -> None:
    titles = [re.findall(r"<title>(.+?)</title>", page.html) for page in pages.values()]
    assert all(len(found) == 1 for found in titles)
    assert len({found[0] for found in titles}) == len(titles)


def test_structured_data_is_json(pages: dict[str, Page]) -> None:
    blocks = [
        block
        for page in pages.values()
        for block in re.findall(r'<script type="application/ld\+json">(.*?)</script>', page.html, re.DOTALL)
    ]
    assert len(blocks) == 3
    assert all(json.loads(block)["@context"] == "https://schema.org" for block in blocks)


def test_an_unchanged_page_is_not_sent_again(server: SampleServer) -> None:
    first = ask(server, "/")
    for condition in (
        {"If-None-Match": first.headers["etag"]},
        {"If-None-Match": f'"other", W/{first.headers["etag"]}'},
        {"If-Modified-Since": first.headers["last-modified"]},
    ):
        again = ask(server, "/", condition)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]


def test_a_changed_page_is_sent_again() -> None:
    resource = read_resource(PAGES / "index.html", "http://127.0.0.1:1")
    now = "Fri, 01 Jan 2999 00:00:00 GMT"
    assert not is_unchanged(resource, '"an older one"', now)
    assert not is_unchanged(resource, None, "Thu, 01 Jan 1970 00:00:01 GMT")
    assert not is_unchanged(resource, None, "not a date")
    assert not is_unchanged(resource, None, None)
    assert is_unchanged(resource, None, now)
    assert is_unchanged(resource, "*", None)


def test_a_page_edited_on_disk_gets_another_tag(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    tags = []
    for text in ("before", "after"):
        file.write_text(text)
        resource: Resource = read_resource(file, "http://127.0.0.1:1")
        tags.append(resource.etag)
    assert tags[0] != tags[1]


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/../pages/index.html",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "/assets/../../server.py",
        "/assets/%2e%2e/%2e%2e/not_found.html",
        "/news/../index.html",
        "//etc/passwd",
        "/%2Fetc/passwd",
        "/assets//site.css",
        "/..",
        "/assets/",
        "/index.html/",
        "/%00",
        "/" + "x" * 5000,
        "http://[/",
    ],
)
def test_nothing_outside_the_pages_is_served(path: str, server: SampleServer) -> None:
    answer = ask(server, path, {"Host": "tea.test"})
    assert answer.status == 404
    assert "没有这一页" in answer.body.decode()


def test_a_folder_without_its_slash_is_redirected(server: SampleServer) -> None:
    answer = ask(server, "/news?page=1")
    assert (answer.status, answer.headers["location"]) == (301, "/news/")


def test_a_head_request_gets_the_headers_alone(server: SampleServer) -> None:
    full, head = ask(server, "/about.html"), ask(server, "/about.html", method="HEAD")
    assert head.body == b""
    assert head.headers["content-length"] == full.headers["content-length"] == str(len(full.body))


def test_the_server_is_quiet_and_stops_cleanly_when_told() -> None:
    command = [sys.executable, "-m", "services.sample_site.server", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert address is not None
        # A connection that is left open must not hold the server back.
        connection = HTTPConnection("127.0.0.1", int(address[1]), timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().read()
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=10)
        connection.close()
    assert (process.returncode, rest, errors) == (0, "", "")


def test_a_taken_port_is_one_clear_sentence(server: SampleServer) -> None:
    command = [sys.executable, "-m", "services.sample_site.server", "--port", str(server.server_port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    expected = f"the sample site cannot listen on 127.0.0.1:{server.server_port}: Address already in use\n"
    assert done.stderr == expected


def ask(server: SampleServer, path: str, headers: dict[str, str] | None = None, *, method: str = "GET") -> Answer:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def decode(answer: Answer) -> str:
    """The page's text, by the charset of its header or else of its meta element; a wrong byte is an error."""
    charset = re.search(r"charset=([\w-]+)", answer.headers["content-type"])
    if charset is not None:
        return answer.body.decode(charset[1])
    declared = re.search(rb"charset=\"?([\w-]+)", answer.body[:1024])
    assert declared is not None
    return answer.body.decode(declared[1].decode())


def internal_links(page: Page) -> list[str]:
    return [link for link in page.links if not link.startswith(("mailto:", "#"))]


def read_robots(server: SampleServer) -> RobotFileParser:
    robots = RobotFileParser()
    robots.parse(ask(server, "/robots.txt").body.decode().splitlines())
    return robots
