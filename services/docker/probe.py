"""A container's own health check: `python -m services.docker.probe URL…` asks each, and fails with what the first bad
one says. Only the standard library, so that it starts quickly and runs in every image.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

TIMEOUT_S = 8.0
SHOWN_CHARS = 500


def main() -> None:
    """Ask all; exit status 1 and the answer of one that is not well."""
    for url in sys.argv[1:]:
        problem = ask(url)
        if problem is not None:
            sys.exit(f"{url}: {problem}")


def ask(url: str) -> str | None:
    """What is wrong there; None if all is well."""
    # No proxy: the network's own services are asked, and an outgoing proxy would look for them elsewhere.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode(errors='replace')[:SHOWN_CHARS]}"
    except OSError as exc:
        return str(exc)


if __name__ == "__main__":
    main()
