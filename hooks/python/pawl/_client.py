"""Sessions: opening, settling, renewing, closing; with and without asyncio. (Asking is _asking.py's.)

Owns the session's id and token. Sockets are _door's business, bytes are _wire's, meaning is _proto's. Holds no policy
and remembers no failure: a pawld that comes back is asked again with the next call.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from . import _inherited, _money, _process, _proto
from ._asking import Asking
from ._door import TIMEOUT, Door
from ._keeper import keeper
from ._money import Cost
from ._proto import Permit
from ._question import session_limits
from .errors import Denied, PawlError, Unavailable
from .reasons import ReasonCode

log = logging.getLogger("pawl")

SETTLE_TIMEOUT = 2.0  # seconds, twice; it runs when the body has ended, so it must not hold a caller up for long
OUTCOMES = ("ok", "error", "cancelled", "not_run")
_ENDED = {ReasonCode.SESSION_CLOSED, ReasonCode.STALE_SESSION, ReasonCode.UNAUTHENTICATED, ReasonCode.SESSION_ABORTED}

# ---- sessions ----

_current: contextvars.ContextVar[tuple[Session, Any] | None] = contextvars.ContextVar("pawl_session", default=None)
_live: weakref.WeakSet[Session] = weakref.WeakSet()
_entered: set[Session] = set()  # inside a `with` somewhere in this process
_default: Session | None = None


class Session(Asking):
    """One run of one agent: its budgets, loops and denials.

    `Session.open(…)` opens at once; `Session(…)` at the first use or on entering `with` or `async with`. Inside the
    block, guards that name no session use this one. Leaving the block closes it. Safe for threads, tasks and forks: a
    forked child goes on with the same session over streams of its own, and leaves the closing to the parent.
    """

    def __init__(
        self,
        agent: str = "local",
        *,
        agent_token: str | None = None,
        root: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Mapping[str, Any] | None = None,
        socket: str | os.PathLike[str] | None = None,
        timeout: float = TIMEOUT,
        parent: Session | None = None,
    ) -> None:
        if parent is not None and not isinstance(parent, Session):
            raise TypeError(f"parent must be a pawl.Session, not {type(parent).__name__}")
        if parent is not None and socket is not None:
            raise ValueError("a child session is at its parent's socket")
        if parent is None and socket is None and _inherited.named():
            parent = _run_session()
        _money.span_text(timeout, "timeout")
        self._door = Door(socket, float(timeout))
        self._fields: dict[str, Any] = {
            "agent": agent,
            "agent_token": agent_token,
            "root": None if root is None and parent is not None else os.path.abspath(os.fspath(root or ".")),
            "labels": dict(labels) if labels else None,
            "limits": session_limits(limits, parent is not None),
        }
        self.parent = parent
        self.agent = agent
        self.id: str | None = None
        self.expires: str | None = None
        self.settle_failures = 0
        self._token: str | None = None
        self._ended: str | None = None
        self._beat_every = 20.0
        self._beat_at = 0.0
        self._home = _process.here()
        self._gate: tuple[_process.Here, threading.Lock] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<pawl.Session {self.id or 'not opened'} agent={self.agent!r}>"  # never the token

    # -- opening and closing

    @classmethod
    def open(cls, agent: str = "local", **how: Any) -> Self:
        """A session that is open now. Takes what Session() takes."""
        return cls(agent, **how)._opened()

    @classmethod
    async def aopen(cls, agent: str = "local", **how: Any) -> Self:
        return await cls(agent, **how)._aopened()

    def _opened(self) -> Self:
        if self._token is not None:
            return self
        with self._lock():
            if self._token is None:
                fields = self._below()  # first: a child goes to its parent's door
                self._accept(self._door.call("session.open", fields))
        return self

    def _below(self) -> dict[str, Any]:
        if self.parent is None:
            return self._fields
        above = self.parent._opened()
        self._door = Door(above._door.path, self._door.timeout)
        self._door.path_from = above._door.path_from
        return {**self._fields, "parent": above.id, "parent_token": above._token}

    def child(
        self,
        agent: str | None = None,
        *,
        agent_token: str | None = None,
        root: str | os.PathLike[str] | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Session:
        """A session below this one, for a sub-agent: it shares loops, denials and budgets, and ends with this one.

        limits only tighten; `money` may be a share of what this session has left when the child opens: "25%". Agent
        (with its token), root and time-out are this session's unless given. Opens as Session() does.
        """
        if agent is None:
            agent, agent_token = self.agent, agent_token or self._fields["agent_token"]
        return Session(
            agent,
            agent_token=agent_token,
            root=root,
            labels=labels,
            limits=limits,
            timeout=self._door.timeout if timeout is None else timeout,
            parent=self,
        )

    async def _aopened(self) -> Self:
        # Once a session, so a thread is cheap enough, and the lock that threads share stays the only one.
        return self if self._token is not None else await asyncio.to_thread(self._opened)

    def _lock(self) -> threading.Lock:
        h = _process.here()
        with h.lock:
            if self._gate is None or self._gate[0] is not h:
                self._gate = (h, threading.Lock())
            return self._gate[1]

    def _accept(self, got: dict[str, Any]) -> None:
        session, token = _proto.opened(got)
        lease = _money.span_seconds(got.get("lease"))
        self._beat_every = min(max((lease or 60.0) / 3, 0.05), 3600.0)
        self.expires = got["expires"] if isinstance(got.get("expires"), str) else None
        self._home = _process.here()
        self.id, self._token = session, token
        self._touched()
        _live.add(self)

    def close(self) -> None:
        """What is still reserved is charged. Closing again does nothing; in a forked child it does nothing at all."""
        if self._closing():
            self._door.call("session.close", {"session": self.id, "token": self._token})

    async def aclose(self) -> None:
        if self._closing():
            await self._door.acall("session.close", {"session": self.id, "token": self._token})

    def _closing(self) -> bool:
        _live.discard(self)
        if self._token is None or self._ended or self._home is not _process.here():
            return False
        self._ended = ReasonCode.SESSION_CLOSED
        return True

    def __enter__(self) -> Self:
        self._opened()
        return self._entering()

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self._leaving()
        try:
            self.close()
        except PawlError as why:
            self._not_closed(why)

    async def __aenter__(self) -> Self:
        await self._aopened()
        return self._entering()

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._leaving()
        try:
            await self.aclose()
        except PawlError as why:
            self._not_closed(why)

    def _not_closed(self, why: PawlError) -> None:
        """No error: the work is done, and what was reserved is charged anyway when the lease ends."""
        over = isinstance(why, Denied) and why.code in _ENDED  # by a person, or with its parent
        log.log(logging.DEBUG if over else logging.WARNING, "%r was not closed: %s", self, why)

    def _entering(self) -> Self:
        _current.set((self, _current.get()))
        _entered.add(self)
        return self

    def _leaving(self) -> None:
        _entered.discard(self)
        top = _current.get()
        if top is not None and top[0] is self:
            _current.set(top[1])

    # -- settling

    def settle(
        self,
        permit: Permit,
        outcome: str = "ok",
        *,
        cost: Cost | None = None,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        duration: float | None = None,
    ) -> dict[str, Any]:
        """What was charged and what came back.

        cost: as reported; result: {sha256, bytes}; error: {kind, sha256}; duration: seconds.
        """
        fields = self._report(permit, outcome, cost, result, error, duration)
        return _proto.settled(self._door.call("settle", fields, SETTLE_TIMEOUT, permit.tool), permit.decision)

    async def asettle(
        self,
        permit: Permit,
        outcome: str = "ok",
        *,
        cost: Cost | None = None,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        duration: float | None = None,
    ) -> dict[str, Any]:
        fields = self._report(permit, outcome, cost, result, error, duration)
        return _proto.settled(await self._door.acall("settle", fields, SETTLE_TIMEOUT, permit.tool), permit.decision)

    def _report(
        self,
        permit: Permit,
        outcome: str,
        cost: Cost | None = None,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        duration: float | None = None,
    ) -> dict[str, Any]:
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}, not {outcome!r}")
        return {
            "session": self.id,
            "token": self._token,
            "decision": permit.decision,
            "outcome": outcome,
            "cost": _money.cost_object(cost, "cost"),
            "result": dict(result) if result else None,
            "error": dict(error) if error else None,
            "duration": None if duration is None else _money.duration_text(int(duration * 1e9)),
        }

    def _settle_quietly(self, permit: Permit, report: dict[str, Any]) -> None:
        """For a body that has ended: never raises an Exception, tries twice (the same report twice is one report)."""
        for last in (False, True):
            try:
                self.settle(permit, **report)
                self._touched()
                return
            except Exception as e:
                if not self._again(permit, e, last):
                    return
            time.sleep(0.05)

    async def _asettle_quietly(self, permit: Permit, report: dict[str, Any]) -> None:
        """The same. A cancelled caller waits no longer, but the report still goes out."""
        await self._shielded(self._settle_task(permit, report), lambda: self._settle_quietly(permit, report))

    async def _shielded(self, work: Coroutine[Any, Any, None], blocking: Callable[[], None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the loop holds tasks weakly

        def ended(t: asyncio.Task[None]) -> None:
            self._tasks.discard(t)
            if t.cancelled():  # the loop is being torn down, perhaps before the task began: say it the blocking way
                blocking()

        task.add_done_callback(ended)
        await asyncio.shield(task)

    async def _settle_task(self, permit: Permit, report: dict[str, Any]) -> None:
        for last in (False, True):
            try:
                await self.asettle(permit, **report)
                self._touched()
                return
            except Exception as e:
                if not self._again(permit, e, last):
                    return
            await asyncio.sleep(0.05)

    def _again(self, permit: Permit, e: Exception, last: bool) -> bool:
        if isinstance(e, Unavailable) and not last:
            return True
        self.settle_failures += 1
        log.warning(
            "%s (%s) was not settled, so its reservation will be charged in full: %s", permit.tool, permit.decision, e
        )
        return False

    # -- the rest

    def state(self) -> dict[str, Any]:
        """What pawld knows of this session: used and remaining of every budget, open decisions, reviews."""
        self._opened()
        return self._door.call("session.state", {"session": self.id, "token": self._token})

    async def astate(self) -> dict[str, Any]:
        await self._aopened()
        return await self._door.acall("session.state", {"session": self.id, "token": self._token})

    def _touched(self) -> None:
        """pawld has just heard of us, which renews the lease."""
        self._beat_at = time.monotonic() + self._beat_every
        keeper().keep(self)

    def beat_at(self) -> float | None:
        return None if self._ended or self._token is None else self._beat_at

    def beat(self) -> None:
        self._beat_at = time.monotonic() + self._beat_every
        try:
            got = self._door.call("heartbeat", {"session": self.id, "token": self._token}, SETTLE_TIMEOUT)
            self.expires = got["expires"] if isinstance(got.get("expires"), str) else self.expires
        except Denied as e:
            if e.code in _ENDED and not self._ended:
                self._ended = e.code  # stop renewing; the next question is still asked, and pawld says it better
                log.warning("%r has ended: %s", self, e)
        except Exception as e:
            log.debug("no heartbeat for %r: %s", self, e)


class _RunSession(Session):
    """The one that `pawl run` opened for this command. Nothing here opens or closes it: it ends with the command."""

    def __init__(self) -> None:
        super().__init__(socket=os.devnull)  # the descriptor says where

    def _opened(self) -> Self:
        if self._token is None:
            with self._lock():
                if self._token is None:
                    got = _inherited.read()
                    self._door = Door(got.socket, self._door.timeout)
                    self._door.path_from = _inherited.VARIABLE
                    self.agent = self._fields["agent"] = got.agent
                    self._accept({"session": got.session, "token": got.token})
                    _live.discard(self)
        return self

    def _closing(self) -> bool:
        return False


_run: _RunSession | None = None


def _run_session() -> _RunSession:
    global _run
    with _process.here().lock:
        if _run is None:
            _run = _RunSession()
        return _run


def default_session() -> Session:
    """The process's own session: that of `pawl run`, else one of agent `local`, opened when a guard first needs it; a
    forked child shares it."""
    global _default
    with _process.here().lock:
        if _default is None:
            _default = _run_session() if _inherited.named() else Session()
        return _default


def current_session() -> Session:
    """The session of the innermost `with` around this code, else the process's own."""
    top = _current.get()
    if top is not None:
        return top[0]
    if _entered:
        raise RuntimeError(
            "a pawl.Session is in use in this process, but not by this thread or task (a `with` does not reach into "
            "thread pools). Name it: @guard(session=…), or run the work in contextvars.copy_context(); "
            "session=pawl.default_session() is the process's own"
        )
    return default_session()


def _at_exit() -> None:
    for session in list(_live):
        try:
            session._door.timeout = min(session._door.timeout, 1.0)
            session.close()
        except Exception as e:
            log.debug("%r was not closed: %s", session, e)


atexit.register(_at_exit)
