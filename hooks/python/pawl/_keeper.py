"""One daemon thread a process: renews the leases of live sessions and says when a body runs past its timeout.

Holds sessions weakly. Never settles, closes or stops anything.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from typing import TYPE_CHECKING

from . import _process

if TYPE_CHECKING:
    from ._client import Session

log = logging.getLogger("pawl")


class Watch:
    """A body that should have ended by `at`."""

    __slots__ = ("at", "tool", "seconds")

    def __init__(self, tool: str, seconds: float) -> None:
        self.at = time.monotonic() + seconds
        self.tool = tool
        self.seconds = seconds


class Keeper:
    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self._watches: set[Watch] = set()
        self._sleeps_until = 0.0
        try:
            threading.Thread(target=self._run, name="pawl-keeper", daemon=True).start()
        except RuntimeError as e:  # no more threads, or the interpreter is ending: calls still work, nothing is renewed
            log.warning("leases are not renewed: %s", e)

    def keep(self, session: Session) -> None:
        with self._wake:
            if session not in self._sessions:
                self._sessions.add(session)
                self._wake.notify()

    def watch(self, tool: str, seconds: float) -> Watch:
        w = Watch(tool, seconds)
        with self._wake:
            self._watches.add(w)
            if w.at < self._sleeps_until:
                self._wake.notify()
        return w

    def unwatch(self, w: Watch) -> None:
        with self._wake:
            self._watches.discard(w)

    def _run(self) -> None:
        while True:
            due = self._wait()
            while due:  # popped, so that nothing here keeps a dropped session alive through the next sleep
                due.pop().beat()

    def _wait(self) -> list[Session]:
        """Sleeps until something is due; returns the sessions whose lease wants renewing. Holds none while asleep."""
        with self._wake:
            now = time.monotonic()
            late = [w for w in self._watches if w.at <= now]
            self._watches.difference_update(late)
            rows = [(session.beat_at(), session) for session in self._sessions]
            self._sessions.difference_update([session for at, session in rows if at is None])
            due = [session for at, session in rows if at is not None and at <= now]
            if not late and not due:
                times = [w.at for w in self._watches] + [at for at, _ in rows if at is not None]
                rows.clear()
                self._sleeps_until = min(times, default=now + 3600.0)
                self._wake.wait(self._sleeps_until - now)
        for w in late:
            log.warning(
                "%s is overdue: still running after timeout_seconds=%g, and a thread cannot be stopped",
                w.tool,
                w.seconds,
            )
        return due


def keeper() -> Keeper:
    h = _process.here()
    if h.keeper is None:
        with h.lock:
            if h.keeper is None:
                h.keeper = Keeper()
    return h.keeper
