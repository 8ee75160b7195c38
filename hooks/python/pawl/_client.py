"""Sessions: opening, asking, settling, renewing, closing; with and without asyncio.

Owns the session's id and token. Sockets are _door's business, bytes are _wire's, meaning is _proto's. Holds no policy
and remembers no failure: a pawld that comes back is asked again with the next call.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from . import _money, _process, _proto
from ._door import TIMEOUT, Door
from ._encode import encode_args
from ._keeper import keeper
from ._money import Cost, Money
from ._proto import Permit
from .errors import Denied, PawlError, ProtocolError, Unavailable
from .reasons import ReasonCode

log = logging.getLogger("pawl")

GIVE_BACK = 1.0  # seconds a cancelled task may be held up by learning what became of its question
SETTLE_TIMEOUT = 2.0  # seconds, twice; it runs when the body has ended, so it must not hold a caller up for long
KINDS = ("tool", "llm", "delegate", "http", "code")
OUTCOMES = ("ok", "error", "cancelled", "not_run")
TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}", re.ASCII)
_ENDED = {ReasonCode.SESSION_CLOSED, ReasonCode.STALE_SESSION, ReasonCode.UNAUTHENTICATED, ReasonCode.SESSION_ABORTED}

# ---- sessions ----

_current: contextvars.ContextVar[tuple[Session, Any] | None] = contextvars.ContextVar("pawl_session", default=None)
_live: weakref.WeakSet[Session] = weakref.WeakSet()
_entered: set[Session] = set()  # inside a `with` somewhere in this process
_default: Session | None = None


class Session:
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
    ) -> None:
        _money.span_text(timeout, "timeout")
        self._door = Door(socket, float(timeout))
        self._fields: dict[str, Any] = {
            "agent": agent,
            "agent_token": agent_token,
            "root": os.path.abspath(os.fspath(root if root is not None else ".")),
            "labels": dict(labels) if labels else None,
            "limits": session_limits(limits),
        }
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
                self._accept(self._door.call("session.open", self._fields))
        return self

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
        except PawlError as why:  # the work is done, and what was reserved is charged anyway when the lease ends
            log.warning("%r was not closed: %s", self, why)

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
            log.warning("%r was not closed: %s", self, why)

    def _entering(self) -> Self:
        _current.set((self, _current.get()))
        _entered.add(self)
        return self

    def _leaving(self) -> None:
        _entered.discard(self)
        top = _current.get()
        if top is not None and top[0] is self:
            _current.set(top[1])

    # -- asking

    def ask(
        self,
        tool: str,
        args: dict[str, Any],
        *,
        call: str | None = None,
        kind: str = "tool",
        model: str | None = None,
        estimate: Cost | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Permit:
        """A Permit, or Denied, ReviewPending, Unavailable. The guarded work may start only once this has returned."""
        fields = _question(tool, args, call, kind, model, estimate, limits)
        self._opened()
        return self._permit(self._door.call("decide", self._mine(fields), tool=tool), fields)

    async def aask(
        self,
        tool: str,
        args: dict[str, Any],
        *,
        call: str | None = None,
        kind: str = "tool",
        model: str | None = None,
        estimate: Cost | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Permit:
        """The same. Cancelled while it waits, it gives back what it may have been granted: docs/python.md."""
        fields = _question(tool, args, call, kind, model, estimate, limits)
        await self._aopened()
        mine, sent = self._mine(fields), threading.Event()
        try:
            got = await self._door.acall("decide", mine, tool=tool, on_send=sent.set)
        except asyncio.CancelledError:
            if sent.is_set():
                await self._shielded(self._agive_back(mine), lambda: self._give_back(mine))
            raise
        return self._permit(got, fields)

    # The stream of a cancelled question is gone, and with it the answer. The same question, same client, same call, is
    # not a second one (docs/wire.md, decide): an allow that is open comes again, one that is settled is never repeated.

    async def _agive_back(self, question: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(GIVE_BACK):
                got = await self._door.acall("decide", question, GIVE_BACK, question["tool"])
                await self.asettle(self._permit(got, question), "not_run")
        except Exception as e:  # also every no: then nothing is open
            log.debug("nothing to give back for %s: %s", question["tool"], e)

    def _give_back(self, question: dict[str, Any]) -> None:
        end = time.monotonic() + GIVE_BACK
        try:
            got = self._door.call("decide", question, GIVE_BACK, question["tool"])
            report = self._report(self._permit(got, question), "not_run", None, None, None, None)
            self._door.call("settle", report, max(end - time.monotonic(), 0.05), question["tool"])
        except Exception as e:
            log.debug("nothing to give back for %s: %s", question["tool"], e)

    def _mine(self, fields: dict[str, Any]) -> dict[str, Any]:
        if self._ended == ReasonCode.SESSION_CLOSED:
            raise Denied(f"{self!r} was closed here", code=ReasonCode.SESSION_CLOSED, tool=fields.get("tool"))
        return {"session": self.id, "token": self._token, **fields}

    def _permit(self, got: dict[str, Any], fields: dict[str, Any]) -> Permit:
        self._touched()
        try:
            permit = _proto.permit(got, fields["call"], fields["tool"])
        except ProtocolError as e:
            e.path, e.path_from = self._door.path, self._door.path_from
            raise
        if permit.limits_ignored:
            log.warning("%s: limits looser than those of an earlier call were ignored", permit.tool)
        return permit

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
        cost: Cost | None,
        result: Mapping[str, Any] | None,
        error: Mapping[str, Any] | None,
        duration: float | None,
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


def session_limits(limits: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if limits is None:
        return None
    out: dict[str, Any] = {}
    for k, v in limits.items():
        what = f"limits[{k!r}]"
        if k == "money":
            out[k] = _money.money_text(v, what, exact=True)
        elif k in ("tokens", "calls"):
            out[k] = _money.count(v, what)
        elif k == "time":
            out[k] = v if isinstance(v, str) else _money.span_text(v, what, 10**9)
        else:
            raise ValueError(f"limits knows money, tokens, calls and time, not {k!r}")
    return out or None


def call_limits(budget: Money | None, repeat: int | None, timeout_seconds: float | None) -> dict[str, Any] | None:
    out: dict[str, Any] = {}
    if budget is not None:
        out["money"] = _money.money_text(budget, "budget", exact=True)
    if repeat is not None:
        out["repeat"] = _money.count(repeat, "max_repeat_calls", 1)
    if timeout_seconds is not None:
        out["lease"] = _money.span_text(timeout_seconds, "timeout_seconds")
    return out or None


def check_tool(tool: object) -> str:
    if not isinstance(tool, str):
        raise TypeError(f"a tool's name must be text, not {type(tool).__name__}")
    if not TOOL_NAME.fullmatch(tool):
        raise ValueError(f'{tool!a} cannot be a tool\'s name: 1 to 128 of A-Z a-z 0-9 _ . : / - (say tool="…")')
    return tool


def check_kind(kind: object, model: object) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if (kind == "llm") != (model is not None):
        raise ValueError("kind='llm' names its model=, and no other kind does")


def _question(
    tool: str,
    args: dict[str, Any],
    call: str | None,
    kind: str,
    model: str | None,
    estimate: Cost | None,
    limits: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """All that can be wrong on this side is found here, before pawld hears of it."""
    check_tool(tool)
    check_kind(kind, model)
    if not isinstance(args, dict):
        raise TypeError(f"args must be a dict, not {type(args).__name__}")
    h = _process.here()
    return {
        "client": h.client,
        "call": call or h.call_id(),
        "kind": kind,
        "model": model,
        "tool": tool,
        "args": encode_args(args),
        "estimate": _money.cost_object(estimate, "estimate"),
        "limits": dict(limits) if limits else None,
    }


def default_session() -> Session:
    """The process's own session (agent `local`), opened when a guard first needs it; a forked child shares it."""
    global _default
    with _process.here().lock:
        if _default is None:
            _default = Session()
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
