import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from crawler.addresses import LIFETIME_S, NEGATIVE_LIFETIME_S, Resolver, is_public
from crawler.errors import FetchError, RefusedAddress
from crawler.records import FetchErrorKind

CASES = Path(__file__).parent / "cases"
SSRF = json.loads((CASES / "c58_seeds.json").read_text("utf-8"))
HTTP_SEEDS = [seed for seed in SSRF["refuse"] if seed.startswith("http")]


class Names:
    """A name server: answers in turn, the last one for ever."""

    def __init__(self, **answers: list[tuple[str, ...] | Exception]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, name: str) -> tuple[str, ...]:
        self.asked.append(name)
        await asyncio.sleep(0)
        turns = self.answers[name.replace(".", "_")]
        answer = turns.pop(0) if len(turns) > 1 else turns[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(body: Callable[[Resolver], Coroutine[Any, Any, Any]], names: Names | None = None, now: float = 0.0) -> Any:
    async def main() -> Any:
        async with Resolver(names or Names(), clock=lambda: now) as resolver:
            return await body(resolver)

    return asyncio.run(main())


@pytest.mark.parametrize("seed", HTTP_SEEDS)
def test_every_spelling_of_a_private_address_is_refused(seed: str) -> None:
    host = seed.split("//")[1].split("/")[0].rpartition("@")[2]
    name = host if host.startswith("[") else host.partition(":")[0]
    with pytest.raises(RefusedAddress, match="not a public address"):
        run(lambda resolver: resolver.resolve(name, urlsplit(seed).port or 80))


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "::",
        "::1",
        "::127.0.0.1",
        "fe80::1%eth0",
        "fec0::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:10.0.0.1",
        "::ffff:0:10.0.0.1",
        "2002:7f00:1::",
        "2002:0a00:0001::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2a00:1450::5efe:10.0.0.1",
        "2001:db8::1",
        "not an address",
    ],
)
def test_an_address_of_no_public_host_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"],
)
def test_an_address_of_a_public_host_is_public(address: str) -> None:
    assert is_public(address)


def test_an_allowed_host_and_port_may_be_private_and_no_other_port_of_it() -> None:
    allowed = frozenset({"127.0.0.1:8080", "[::1]:80", "intranet.example:443"})
    names = Names(intranet_example=[("10.0.0.7",)])

    async def body(resolver: Resolver) -> None:
        assert await resolver.resolve("127.0.0.1", 8080, allowed) == ("127.0.0.1",)
        assert await resolver.resolve("[::1]", 80, allowed) == ("::1",)
        assert await resolver.resolve("Intranet.Example.", 443, allowed) == ("10.0.0.7",)
        for host, port in (("127.0.0.1", 8081), ("intranet.example", 80), ("127.0.0.2", 8080)):
            with pytest.raises(RefusedAddress):
                await resolver.resolve(host, port, allowed)

    run(body, names)


def test_only_the_public_addresses_of_a_mixed_answer_are_given() -> None:
    names = Names(mixed_test=[("10.0.0.1", "8.8.8.8", "::1")])
    assert run(lambda resolver: resolver.resolve("mixed.test", 80), names) == ("8.8.8.8",)


def test_a_name_is_looked_up_once_for_all_who_ask_at_once() -> None:
    names = Names(busy_test=[("8.8.8.8",)])

    async def body(resolver: Resolver) -> None:
        answers = await asyncio.gather(*(resolver.resolve("busy.test", 80) for _ in range(50)))
        assert set(answers) == {("8.8.8.8",)}

    run(body, names)
    assert names.asked == ["busy.test"]


def test_one_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    names = Names(busy_test=[("8.8.8.8",)])

    async def body(resolver: Resolver) -> None:
        first = asyncio.create_task(resolver.resolve("busy.test", 80))
        second = asyncio.create_task(resolver.resolve("busy.test", 80))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == ("8.8.8.8",)

    run(body, names)


def test_answers_are_kept_for_their_lifetime_and_unknown_names_for_less() -> None:
    names = Names(
        moving_test=[("8.8.8.8",), ("1.1.1.1",)],
        late_test=[socket.gaierror(socket.EAI_NONAME, "Name or service not known"), ("1.1.1.1",)],
    )
    now = 0.0

    async def main() -> None:
        nonlocal now
        async with Resolver(names, clock=lambda: now) as resolver:
            assert await resolver.resolve("moving.test", 80) == ("8.8.8.8",)
            for _ in range(2):
                with pytest.raises(FetchError, match=r"late\.test has no address") as caught:
                    await resolver.resolve("late.test", 80)
            assert caught.value.kind is FetchErrorKind.DNS
            assert names.asked == ["moving.test", "late.test"]
            now = NEGATIVE_LIFETIME_S
            assert await resolver.resolve("late.test", 80) == ("1.1.1.1",)
            assert await resolver.resolve("moving.test", 80) == ("8.8.8.8",)
            now = LIFETIME_S
            assert await resolver.resolve("moving.test", 80) == ("1.1.1.1",)

    asyncio.run(main())


def test_a_name_that_flips_to_a_private_address_is_refused_then() -> None:
    names = Names(flip_test=[("203.0.112.7",), ("127.0.0.1",)])
    now = 0.0

    async def main() -> None:
        nonlocal now
        async with Resolver(names, clock=lambda: now) as resolver:
            assert await resolver.resolve("flip.test", 80) == ("203.0.112.7",)
            now = LIFETIME_S
            with pytest.raises(RefusedAddress):
                await resolver.resolve("flip.test", 80)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["a b.test", "-x/../y", "x" * 64 + ".test", "", "1.2.3.4.5"])
def test_what_is_no_host_name_is_refused_without_a_look_up(name: str) -> None:
    with pytest.raises(FetchError, match="not a host name"):
        run(lambda resolver: resolver.resolve(name, 80))


def test_behind_a_proxy_only_literals_and_localhost_are_checked() -> None:
    async def body(resolver: Resolver) -> None:
        resolver.check_unresolved("unknown.example", 80)
        resolver.check_unresolved("8.8.8.8", 80)
        resolver.check_unresolved("127.1", 80, frozenset({"127.1:80"}))
        for host in ("127.1", "localhost", "[::1]", "0x7f.1"):
            with pytest.raises(RefusedAddress):
                resolver.check_unresolved(host, 80)

    run(body)


def test_the_system_knows_the_names_of_this_machine() -> None:
    async def main() -> tuple[str, ...]:
        async with Resolver() as resolver:
            name = socket.gethostname().lower()
            return await resolver.resolve(name, 80, frozenset({f"{name}:80"}))

    assert asyncio.run(main())
