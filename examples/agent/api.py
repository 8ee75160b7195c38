"""A small API handler with nobody at a console: its breaker stops it when what it stands on fails, and lets it come back by itself.

The upstream is an object here, so that the demo needs no network; `down` makes it fail as a real one does. A request is a name, an
answer is what an HTTP server would send: status, headers, text.
"""
from __future__ import annotations

import math
import threading
from typing import NamedTuple

import pawl


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


class Upstream:
    """Counts who reaches it. While `gate` is closed whoever is inside stays inside, which makes a slow call."""

    def __init__(self) -> None:
        self.down = False
        self.reached = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def price(self, name: str) -> str:
        with self._lock:
            self.reached += 1
        if not self.gate.wait(20):
            raise TimeoutError("upstream: nobody opened the gate")
        if self.down:
            raise ConnectionError("upstream: connection refused")
        return f"{name}: {len(name)}.00"


class Handler:
    """May be called from many threads, as a server does."""

    def __init__(self, session: pawl.Session, upstream: Upstream) -> None:
        @pawl.guard(tool="api.quote", kind="http", session=session)
        def quote(name: str) -> str:
            return upstream.price(name)

        self._quote = quote

    def get(self, name: str) -> Answer:
        try:
            return Answer(200, {}, self._quote(name))
        except pawl.Denied as e:
            if e.retry_after_seconds is None:
                return Answer(403, {}, str(e))
            return Answer(503, {"Retry-After": str(math.ceil(e.retry_after_seconds))}, str(e.code))
        except pawl.PawlError as e:  # no verdict is no yes
            return Answer(503, {}, str(e))
        except OSError as e:
            return Answer(502, {}, str(e))
