"""What a guard knows before a call (Plan) and what one allowed call knows from its permit to its report (Run).

Neither knows the function. A report that fails, and a result that cannot be read, never reach the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import inspect
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

from . import _money
from ._client import Session, current_session
from ._encode import digest
from ._keeper import Watch, keeper
from ._money import Cost
from ._proto import Permit
from ._question import call_limits, check_kind, check_tool, wait_seconds

log = logging.getLogger("pawl")

_ABORTS = (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt)


class Plan:
    """What the decorator's arguments say about every call. Does not know the function."""

    def __init__(self, tool: str, how: dict[str, Any], sig: inspect.Signature, in_class: bool) -> None:
        self.tool = check_tool(tool)
        check_kind(how["kind"], how["model"])
        self.kind, self.model = how["kind"], how["model"]
        self.limits = call_limits(how["budget"], how["max_repeat_calls"], how["timeout_seconds"])
        self.timeout: float | None = None if how["timeout_seconds"] is None else float(how["timeout_seconds"])
        self.estimate, self.cost, self.args = how["estimate"], how["cost"], how["args"]
        self.chosen = how["session"]
        self.wait = wait_seconds(how["wait"])
        self.sig = sig
        for name in ("args", "cost"):
            if how[name] is not None and not callable(how[name]):
                raise TypeError(f"{name} must be a function, not {type(how[name]).__name__}")
        if not callable(self.estimate):
            _money.cost_object(self.estimate, "estimate")
        if self.chosen is not None and not isinstance(self.chosen, Session):
            raise TypeError(f"session must be a pawl.Session, not {type(self.chosen).__name__}")
        first = next(iter(sig.parameters.values()), None)
        self.bound_to = (
            first.name
            if in_class
            and first is not None
            and first.name in ("self", "cls")
            and first.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            else None
        )

    def session(self) -> Session:
        return self.chosen if self.chosen is not None else current_session()

    def question(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = self.sig.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        positional = bound.args
        if self.bound_to is not None:
            values.pop(self.bound_to)
            positional = positional[1:]
        sent = values if self.args is None else self.args(*positional, **bound.kwargs)
        if not isinstance(sent, dict):
            raise TypeError(f"args= of {self.tool} returned {type(sent).__name__} and must return a dict")
        estimate = self.estimate(*positional, **bound.kwargs) if callable(self.estimate) else self.estimate
        return {
            "args": sent,
            "estimate": estimate,
            "kind": self.kind,
            "model": self.model,
            "limits": self.limits,
            "wait": self.wait,
        }


class Run:
    """One allowed call, from its permit to its report."""

    __slots__ = ("plan", "session", "permit", "began", "watch", "last", "timed_out")

    def __init__(self, plan: Plan, session: Session, permit: Permit, watched: bool) -> None:
        self.plan = plan
        self.session = session
        self.permit = permit
        self.last: Any = None  # of a generator: the last item
        self.timed_out = False
        self.watch: Watch | None = (
            keeper().watch(plan.tool, plan.timeout) if watched and plan.timeout is not None else None
        )
        self.began = time.monotonic()

    def returned(self, result: Any, hashed: bool = True) -> None:
        """Settles; reading the result runs its own code, and the report goes out whatever that does."""
        report = self._report("ok")
        try:
            self._read(report, result, hashed)
        finally:
            self.settle(report)

    async def areturned(self, result: Any, hashed: bool = True) -> None:
        report = self._report("ok")
        try:
            self._read(report, result, hashed)
        finally:
            await self.asettle(report)

    def _read(self, report: dict[str, Any], result: Any, hashed: bool) -> None:
        if hashed:
            report["result"] = digest(result)
        if self.plan.cost is not None:
            report["cost"] = self._cost(result)

    def raised(self, e: BaseException) -> dict[str, Any]:
        if self.timed_out:
            return self._report("error", {"kind": "timeout"})
        try:
            text = str(e).encode("utf-8", "replace")
        except Exception:
            text = b""
        error = {"kind": _error_kind(e), "sha256": hashlib.sha256(text).hexdigest()}
        return self._report("cancelled" if isinstance(e, _ABORTS) else "error", error)

    def _report(self, outcome: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
        took = time.monotonic() - self.began
        if self.watch is not None:
            keeper().unwatch(self.watch)
            if error is None and took > self.watch.seconds:
                error = {"kind": "overdue"}
        return {"outcome": outcome, "error": error, "duration": took}

    def _cost(self, result: Any) -> Cost | None:
        try:
            return _money.cost_object(self.plan.cost(result), "cost")
        except Exception as e:
            with contextlib.suppress(Exception):  # a log handler may raise
                log.warning("cost= of %s failed, so its reservation will be charged: %r", self.plan.tool, e)
            return None

    def settle(self, report: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):
            self.session._settle_quietly(self.permit, report)

    async def asettle(self, report: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):
            await self.session._asettle_quietly(self.permit, report)

    def unwatched(self) -> Run:
        """From here on limited() keeps the time."""
        if self.watch is not None:
            keeper().unwatch(self.watch)
            self.watch = None
        return self

    @contextlib.asynccontextmanager
    async def limited(self) -> AsyncGenerator[None, None]:
        """timeout_seconds for one stretch of an async body; counts from the permit."""
        if self.plan.timeout is None:
            yield
            return
        try:
            async with asyncio.timeout(self.began + self.plan.timeout - time.monotonic()) as limit:
                yield
        except TimeoutError as e:
            if not limit.expired():
                raise
            self.timed_out = True
            raise TimeoutError(f"{self.plan.tool} was cancelled after timeout_seconds={self.plan.timeout:g}") from e


def _error_kind(e: BaseException) -> str:
    kind = f"{type(e).__module__}.{type(e).__qualname__}".removeprefix("builtins.")
    return (
        "".join(c for c in kind if c.isprintable()).encode("utf-8", "replace")[:256].decode("utf-8", "ignore")
        or "Exception"
    )
