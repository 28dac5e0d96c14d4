from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.site.fake_site import FakeSite, Route, load_routes


@pytest.fixture
def cases() -> Path:
    """The folder of the real-world cases' inputs."""
    return Path(__file__).parent / "cases"


@pytest.fixture
def play() -> Iterator[Callable[..., FakeSite]]:
    """Serves routes, or the JSON file of a case, on loopback until the test is over."""
    with ExitStack() as sites:

        def serve(*routes: Route | Path, address: str = "127.0.0.1") -> FakeSite:
            listed = [
                entry for route in routes for entry in (load_routes(route) if isinstance(route, Path) else [route])
            ]
            return sites.enter_context(FakeSite(listed, address))

        yield serve
