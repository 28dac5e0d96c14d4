from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop

from crawler.addresses import Resolver
from crawler.errors import RefusedAddress
from crawler.fetcher import Fetcher, FetcherSettings
from crawler.records import FetchedPage, FetchRequest, RobotsFile
from crawler.robots import LIFETIME_S, MIN_LIFETIME_S, Robots, RobotsVerdict, product_token
from crawler.robots_rules import MAX_BYTES
from tests.site.fake_site import Drip, Endless, FakeSite, Route

Play = Callable[..., FakeSite]
AGENT = "Mozilla/5.0 (compatible; Plumbline/0.1; +https://owner.example/)"
SETTINGS = FetcherSettings(AGENT, timeout_s=0.8)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = (("Content-Type", "text/plain"),)


class World:
    """A clock and a store, and Robots over a real fetcher."""

    def __init__(self) -> None:
        self.now = NOW
        self.stored: dict[str, RobotsFile] = {}
        self.loads = 0

    async def load(self, host: str) -> RobotsFile | None:
        self.loads += 1
        return self.stored.get(host)

    async def save(self, file: RobotsFile) -> None:
        self.stored[file.host] = file

    def robots(self, fetch: Callable[[FetchRequest], Awaitable[FetchedPage]]) -> Robots:
        return Robots(fetch, self.load, self.save, AGENT, clock=lambda: self.now, jitter=lambda: 0.0)

    def run(self, body: Callable[[Robots], Awaitable[None]]) -> None:
        async def main() -> None:
            async with Resolver() as resolver, Fetcher(SETTINGS, resolver) as fetcher:
                await body(self.robots(fetcher.fetch))

        uvloop.run(main())

    def wait_until(self, at: datetime | None) -> None:
        assert at is not None and at > self.now
        self.now = at


def template(*sites: FakeSite) -> FetchRequest:
    return FetchRequest("http://unused.test/", 1, allow_private=frozenset(site.host for site in sites))


def verdict_once(*sites: FakeSite, path: str = "/x") -> RobotsVerdict:
    verdicts: list[RobotsVerdict] = []

    async def body(robots: Robots) -> None:
        verdicts.append(await robots.verdict(sites[0].url(path), template(*sites)))

    World().run(body)
    return verdicts[0]


def test_a_file_with_a_byte_order_mark_forbids_what_it_says(play: Play, cases: Path) -> None:
    body = (cases / "c10_robots_bom.txt").read_bytes()
    verdict = verdict_once(play(Route("/robots.txt", body=body, headers=TEXT)))
    assert not verdict.allowed and not verdict.unreachable
    assert verdict.line is not None and verdict.line.endswith("Disallow: /")


def test_nothing_is_allowed_until_the_rules_are_known(play: Play, cases: Path) -> None:
    site = play(cases / "c11_robots_errors.json")
    world = World()

    async def body(robots: Robots) -> None:
        waits = []
        for turn in range(1, 4):
            verdict = await robots.verdict(site.url("/inner/1"), template(site))
            assert (verdict.allowed, verdict.unreachable, len(site.log)) == (False, True, turn)
            again = await robots.verdict(site.url("/"), template(site))
            assert (again, len(site.log)) == (verdict, turn)
            waits.append(((verdict.retry_at or NOW) - world.now).total_seconds())
            world.wait_until(verdict.retry_at)
        assert waits == [1, 2, 4]
        assert not (await robots.verdict(site.url("/inner/1"), template(site))).allowed
        assert (await robots.verdict(site.url("/open/1"), template(site))).allowed
        assert (await robots.verdict(site.url("/"), template(site))).allowed

    world.run(body)
    assert site.targets == ["/robots.txt"] * 4


def test_retry_after_is_honoured(play: Play) -> None:
    site = play(Route("/robots.txt", status=429, headers=(("Retry-After", "120"),)))
    assert verdict_once(site).retry_at == NOW + timedelta(seconds=120)


@pytest.mark.parametrize(
    "route",
    [
        Route("/robots.txt", status=500, body="User-agent: *\nAllow: /"),
        Route("/robots.txt", status=503),
        Route("/robots.txt", hang_s=30),
        Route("/robots.txt", body="User-agent: *\nDisallow: /", headers=TEXT, drip=Drip(1, 0.5)),
        Route("/robots.txt", body="User-agent: *\n", headers=TEXT, framing="chunked", cut=10),
        Route("/robots.txt", raw=b"nonsense"),
        Route("/robots.txt", status=302, headers=(("Location", "http://10.0.0.1/robots.txt"),)),
    ],
)
def test_a_file_that_cannot_be_had_allows_nothing(play: Play, route: Route) -> None:
    verdict = verdict_once(play(route))
    assert (verdict.allowed, verdict.unreachable) == (False, True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_file_that_is_not_there_means_no_rules(play: Play, status: int) -> None:
    verdict = verdict_once(play(Route("/robots.txt", status=status, body="User-agent: *\nDisallow: /")))
    assert (verdict.allowed, verdict.unreachable) == (True, False)


def test_redirects_are_followed_to_any_host_five_times(play: Play) -> None:
    other = play(Route("/rules.txt", body="User-agent: *\nDisallow: /x", headers=TEXT))
    hops = [
        Route("/robots.txt" if n == 1 else f"/{n}", status=301, headers=(("Location", f"/{n + 1}"),))
        for n in range(1, 5)
    ]
    site = play(*hops, Route("/5", status=307, headers=(("Location", other.url("/rules.txt")),)))
    assert not verdict_once(site, other).allowed
    assert other.targets == ["/rules.txt"]


def test_more_redirects_are_as_good_as_no_file(play: Play) -> None:
    site = play(Route("/robots.txt", status=302, headers=(("Location", "/robots.txt"),)))
    verdict = verdict_once(site)
    assert (verdict.allowed, verdict.unreachable, len(site.log)) == (True, False, 6)


def test_the_file_of_a_host_that_may_not_be_asked_is_not_asked_for(play: Play) -> None:
    site = play(Route("/*"))

    async def body(robots: Robots) -> None:
        with pytest.raises(RefusedAddress):
            await robots.verdict(site.url("/x"), FetchRequest("http://unused.test/", 1))

    World().run(body)
    assert site.connections == 0


def test_a_huge_file_is_read_as_far_as_the_limit_and_parsed_once(play: Play, cases: Path) -> None:
    huge = (cases / "c13_robots_huge.txt").read_bytes()
    site = play(Route("/robots.txt", body=huge, headers=(("Content-Type", "application/octet-stream"),)))
    world = World()

    async def body(robots: Robots) -> None:
        assert not (await robots.verdict(site.url("/secret/1"), template(site))).allowed
        for n in range(100):
            assert (await robots.verdict(site.url(f"/open/{n}"), template(site))).allowed

    world.run(body)
    assert site.targets == ["/robots.txt"]
    assert len(world.stored[site.host].body) <= MAX_BYTES + 1


def test_a_file_without_end_is_not_read_to_its_end(play: Play) -> None:
    endless = Endless(b"User-agent: *\nDisallow: /x\n" + b"# filler\n" * 1000)
    site = play(Route("/robots.txt", endless=endless, framing="close", headers=TEXT))
    assert not verdict_once(site).allowed


@pytest.mark.parametrize(
    ("cache_control", "lifetime_s"),
    [
        ("", LIFETIME_S),
        ("max-age=7200", 7200),
        ("max-age=5", MIN_LIFETIME_S),
        ("public, max-age=999999999", LIFETIME_S),
        ("no-cache", MIN_LIFETIME_S),
        ("max-age=soon", LIFETIME_S),
    ],
)
def test_a_file_is_kept_a_day_or_as_long_as_it_says(play: Play, cache_control: str, lifetime_s: float) -> None:
    headers = (*TEXT, ("Cache-Control", cache_control))
    site = play(Route("/robots.txt", body="User-agent: *\nDisallow: /x", headers=headers))
    world = World()

    async def body(robots: Robots) -> None:
        await robots.verdict(site.url("/x"), template(site))
        world.now += timedelta(seconds=lifetime_s - 1)
        assert not (await robots.verdict(site.url("/x"), template(site))).allowed
        assert len(site.log) == 1
        world.now += timedelta(seconds=1)
        await robots.verdict(site.url("/x"), template(site))
        assert len(site.log) == 2

    world.run(body)


def test_what_was_stored_is_used_after_a_restart(play: Play) -> None:
    site = play(Route("/robots.txt", body="User-agent: *\nDisallow: /x\nCrawl-delay: 2", headers=TEXT))
    world = World()

    async def body(robots: Robots) -> None:
        verdict = await robots.verdict(site.url("/x"), template(site))
        assert (verdict.allowed, verdict.crawl_delay_s) == (False, 2.0)

    world.run(body)
    world.run(body)
    assert len(site.log) == 1


def test_an_older_copy_holds_on_while_the_file_cannot_be_had(play: Play) -> None:
    site = play(
        Route("/robots.txt", turn="1", body="User-agent: *\nDisallow: /x", headers=TEXT),
        Route("/robots.txt", turn="2", status=503, headers=(("Retry-After", "60"),)),
        Route("/robots.txt", turn="3+", status=404),
    )
    world = World()

    async def body(robots: Robots) -> None:
        await robots.verdict(site.url("/x"), template(site))
        world.now += timedelta(days=2)
        verdict = await robots.verdict(site.url("/x"), template(site))
        assert (verdict.allowed, verdict.unreachable, len(site.log)) == (False, False, 2)
        assert (await robots.verdict(site.url("/y"), template(site))).allowed
        world.now += timedelta(seconds=60)
        assert (await robots.verdict(site.url("/x"), template(site))).allowed

    world.run(body)
    assert len(site.log) == 3


def test_all_who_wait_share_one_request_and_one_who_gives_up_does_not_end_it(play: Play) -> None:
    site = play(Route("/robots.txt", body="User-agent: *\nDisallow: /x", headers=TEXT, hang_s=0.1))

    async def body(robots: Robots) -> None:
        asking = [asyncio.create_task(robots.verdict(site.url(f"/x{n}"), template(site))) for n in range(20)]
        await asyncio.sleep(0)
        asking[0].cancel()
        done = await asyncio.gather(*asking[1:])
        assert not any(verdict.allowed for verdict in done)

    World().run(body)
    assert len(site.log) == 1


def test_the_file_is_asked_for_as_the_page_would_be(play: Play) -> None:
    site = play(Route("/robots.txt", status=404))

    async def body(robots: Robots) -> None:
        given = replace(template(site), headers=(("X-Own", "1"),), referrer=site.url("/from"))
        await robots.verdict(site.url("/x"), given)

    World().run(body)
    assert site.log[0].headers["x-own"] == "1"
    assert "referer" not in site.log[0].headers


@pytest.mark.parametrize(
    ("agent", "token"), [(AGENT, "plumbline"), ("Own-Bot/2.0 (+x)", "own-bot"), ("", ""), ("7", "")]
)
def test_the_product_token_is_the_name_in_the_user_agent(agent: str, token: str) -> None:
    assert product_token(agent) == token


@pytest.mark.parametrize("status", [200, 503])
def test_a_copy_from_before_the_clock_was_set_back_is_asked_for_again(play: Play, status: int) -> None:
    site = play(Route("/robots.txt", status=status, headers=TEXT, turn="1"), Route("/robots.txt", headers=TEXT))
    world = World()

    async def body(robots: Robots) -> None:
        world.now += timedelta(days=30)
        await robots.verdict(site.url("/x"), template(site))
        world.now -= timedelta(days=30)
        assert (await robots.verdict(site.url("/x"), template(site))).allowed
        assert site.targets.count("/robots.txt") == 2

    world.run(body)
