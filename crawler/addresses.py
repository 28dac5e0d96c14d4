"""Which addresses the crawler may connect to: names resolved by us, every address checked, answers cached.

In: a host name or literal, a port, and the host:port pairs that the owner allows to be private. Out: the addresses
to connect to, and to no others: whoever connects pins them, so that the address that was checked is the address
that is used, whatever the name server says a second later (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import time
import unicodedata
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from crawler.errors import FetchError, RefusedAddress
from crawler.records import FetchErrorKind

LIFETIME_S = 300.0
"""getaddrinfo tells no time to live; five minutes is what many public zones give."""
NEGATIVE_LIFETIME_S = 60.0
"""How long an unknown name stays unknown; a failed look-up (server not reached) is kept for a tenth of that."""
LOOKUP_TIMEOUT_S = 20.0
LOOKUP_THREADS = 16
MAX_CACHED = 20_000

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str], Awaitable[tuple[str, ...]]]
"""A name's addresses; raises socket.gaierror."""

_NEVER = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; Alibaba's metadata service is 100.100.100.200
            "168.63.129.16/32",  # Azure's platform service, a public address only by its looks
            "192.0.0.0/24",  # IETF protocol assignments; Oracle's metadata service is 192.0.0.192
            "192.88.99.0/24",  # 6to4 relays
            "198.18.0.0/15",
            "240.0.0.0/4",
            "::/96",  # IPv4-compatible, long deprecated
            "64:ff9b:1::/48",  # NAT64 for local use
            "100::/64",
            "2001::/23",  # protocol assignments, Teredo among them
            "3fff::/20",
            "5f00::/16",
            "fec0::/10",
        ),
    )
)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
_ISATAP = re.compile(r"(?:0000|0200):5efe:[0-9a-f]{4}:[0-9a-f]{4}$")
_HOST_NAME = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*(?![0-9]+$)[a-z0-9_-]{1,63}", re.ASCII)
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\.?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Answer:
    addresses: tuple[str, ...]
    public: tuple[str, ...]
    error: str
    expires_at: float


class Resolver:
    """Resolves and checks. One for a process: the fetcher, the renderer's proxies and robots share its cache."""

    def __init__(self, lookup: Lookup | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._lookup = lookup or self._ask_system
        self._clock = clock
        self._answers: dict[str, _Answer] = {}
        self._asking: dict[str, asyncio.Task[_Answer]] = {}
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS, thread_name_prefix="resolver")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the look-up threads as soon as their look-ups end."""
        for task in self._asking.values():
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def resolve(self, host: str, port: int, allow_private: frozenset[str] = frozenset()) -> tuple[str, ...]:
        """The addresses of a host that may be connected to.

        Raises RefusedAddress if it has none but private ones (and host:port is not allowed to), FetchError(DNS)
        if it cannot be resolved.
        """
        name = normalize_host(host)
        answer = self._fresh_answer(name) or await self._ask_once(name)
        return _permitted(answer, name, port, allow_private)

    def resolve_known(self, host: str, port: int, allow_private: frozenset[str]) -> tuple[str, ...] | None:
        """As `resolve`, at once; None if the name has to be looked up."""
        name = normalize_host(host)
        answer = self._fresh_answer(name)
        return None if answer is None else _permitted(answer, name, port, allow_private)

    def check_unresolved(self, host: str, port: int, allow_private: frozenset[str] = frozenset()) -> None:
        """What can be checked of a host that an outgoing proxy will resolve: literals and localhost.

        Raises RefusedAddress.
        """
        addresses = _literal_addresses(name := normalize_host(host))
        if addresses and not _public(addresses) and not is_allowed(name, port, allow_private):
            raise _refusal(name, port, addresses)

    def _fresh_answer(self, name: str) -> _Answer | None:
        answer = self._answers.get(name)
        if answer is not None and answer.expires_at > self._clock():
            return answer
        addresses = _literal_addresses(name)
        return self._keep(name, addresses, "", LIFETIME_S) if addresses else None

    async def _ask_once(self, name: str) -> _Answer:
        """One look-up at a time for a name, shared by all who want it, whoever of them gives up."""
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.get_running_loop().create_task(self._ask(name))
            task.add_done_callback(lambda _task: self._asking.pop(name, None))
        return await asyncio.shield(task)

    async def _ask(self, name: str) -> _Answer:
        if not _HOST_NAME.fullmatch(name) or len(name) > 253:
            return self._keep(name, (), f"{name[:80]!r} is not a host name", NEGATIVE_LIFETIME_S)
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                found = await self._lookup(name)
        except TimeoutError:
            return self._keep(name, (), f"no name server answered for {name}", NEGATIVE_LIFETIME_S / 10)
        except (socket.gaierror, UnicodeError) as exc:
            is_final = isinstance(exc, socket.gaierror) and exc.errno == socket.EAI_NONAME
            reason = exc.strerror if isinstance(exc, socket.gaierror) else str(exc)
            lifetime_s = NEGATIVE_LIFETIME_S if is_final else NEGATIVE_LIFETIME_S / 10
            return self._keep(name, (), f"{name} has no address: {reason}", lifetime_s)
        if not found:
            return self._keep(name, (), f"{name} has no address", NEGATIVE_LIFETIME_S)
        return self._keep(name, found, "", LIFETIME_S)

    def _keep(self, name: str, addresses: tuple[str, ...], error: str, lifetime_s: float) -> _Answer:
        while len(self._answers) >= MAX_CACHED:
            del self._answers[next(iter(self._answers))]
        answer = _Answer(addresses, _public(addresses), error, self._clock() + lifetime_s)
        self._answers[name] = answer
        return answer

    async def _ask_system(self, name: str) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _system_addresses, name)


def is_public(address: str) -> bool:
    """Whether an address is one of the public internet, whatever form it is wrapped in."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return _is_public(parsed)


def is_allowed(host: str, port: int, allow_private: frozenset[str]) -> bool:
    """Whether the owner allows this host and port to be private."""
    spelled = f"[{host}]" if ":" in host else host
    return f"{spelled}:{port}" in allow_private or f"{host}:{port}" in allow_private


def normalize_host(host: str) -> str:
    """A host as it is looked up: no brackets, no last dot, lower case, full-width digits and the like made plain."""
    if not host.isascii():
        host = unicodedata.normalize("NFKC", host)
    return host.strip("[]").rstrip(".").lower()


def _permitted(answer: _Answer, name: str, port: int, allow_private: frozenset[str]) -> tuple[str, ...]:
    if answer.error:
        raise FetchError(FetchErrorKind.DNS, answer.error)
    if allow_private and is_allowed(name, port, allow_private):
        return answer.addresses
    if not answer.public:
        raise _refusal(name, port, answer.addresses)
    return answer.public


def _literal_addresses(name: str) -> tuple[str, ...]:
    """What needs no look-up: addresses in any spelling that connect() understands, and localhost."""
    if name == "localhost" or name.endswith(".localhost"):
        return "127.0.0.1", "::1"
    address = _literal(name)
    return () if address is None else (str(address),)


def _literal(name: str) -> Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        pass
    if not _NUMERIC.fullmatch(name):
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except OSError:
        return None


def _public(addresses: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(address for address in addresses if is_public(address))


def _is_public(address: Address) -> bool:
    inner = _inner_ipv4(address)
    if inner is not None and (address in _NAT64 or address in _MAPPED):
        return _is_public(inner)  # Reserved by their looks, they lead where the IPv4 address in them leads.
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    if any(address in network for network in _NEVER if network.version == address.version):
        return False
    return inner is None or _is_public(inner)


def _inner_ipv4(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address carries, if it carries one."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.sixtofour is not None:
        return address.sixtofour
    carries = any(address in network for network in (_MAPPED, _NAT64, _TRANSLATED)) or _ISATAP.search(address.exploded)
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if carries else None


def _refusal(name: str, port: int, addresses: tuple[str, ...]) -> RefusedAddress:
    shown = ", ".join(addresses[:3])
    where = name if name in addresses else f"{name} ({shown})"
    return RefusedAddress(f"{where} is not a public address; allow {name}:{port} for the site if that is meant")


def _system_addresses(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
