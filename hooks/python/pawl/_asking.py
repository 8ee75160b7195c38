"""What a session asks: decide, claim, and the wait for a person between them; with and without asyncio.

The half of Session that ends in a Permit. What to send next is _review's business; this walks it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self

from . import _proto
from ._door import Door
from ._money import Cost
from ._proto import Permit
from ._question import question, wait_seconds
from ._review import GRANTING, PAUSE, Course, asked, claimed
from .errors import Denied, PawlError, ProtocolError, ReviewPending
from .reasons import ReasonCode

log = logging.getLogger("pawl")

GIVE_BACK = 1.0  # seconds a cancelled task may be held up by learning what became of its question


class Asking:
    _door: Door
    id: str | None
    _token: str | None
    _ended: str | None

    # what Session has beside it
    def _opened(self) -> Self:
        raise NotImplementedError

    async def _aopened(self) -> Self:
        raise NotImplementedError

    def _touched(self) -> None:
        raise NotImplementedError

    def _report(self, permit: Permit, outcome: str) -> dict[str, Any]:
        raise NotImplementedError

    async def _shielded(self, work: Coroutine[Any, Any, None], blocking: Callable[[], None]) -> None:
        raise NotImplementedError

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
        wait: str | float | None = None,
    ) -> Permit:
        """A Permit, or Denied, ReviewPending, Unavailable. The guarded work may start only once this has returned.

        wait: how long a person is waited for when one has to look first ("30s", or seconds).
        """
        fields = question(tool, args, call, kind, model, estimate, limits)
        course = asked(fields, wait_seconds(wait))
        self._opened()
        return self._follow(course, fields)

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
        wait: str | float | None = None,
    ) -> Permit:
        """The same. Cancelled while it waits, it gives back what it may have been granted: docs/python.md."""
        fields = question(tool, args, call, kind, model, estimate, limits)
        course = asked(fields, wait_seconds(wait))
        await self._aopened()
        return await self._afollow(course, fields)

    def claim(
        self,
        review: str,
        tool: str,
        args: dict[str, Any],
        *,
        call: str | None = None,
        kind: str = "tool",
        model: str | None = None,
        estimate: Cost | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Permit:
        """The permit of a call that a person has resumed. Good for this tool and these arguments, once.

        pawld judges again as of now: Denied (Skipped, Aborted), or ReviewPending while nobody has answered.
        """
        review = _proto.check_review(review)
        fields = question(tool, args, call, kind, model, estimate, limits)
        return self._claim({**fields, "review": review})

    async def aclaim(
        self,
        review: str,
        tool: str,
        args: dict[str, Any],
        *,
        call: str | None = None,
        kind: str = "tool",
        model: str | None = None,
        estimate: Cost | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Permit:
        review = _proto.check_review(review)
        fields = question(tool, args, call, kind, model, estimate, limits)
        return await self._aclaim({**fields, "review": review})

    def _claim(self, fields: dict[str, Any]) -> Permit:
        self._opened()
        return self._follow(claimed(fields), fields)

    async def _aclaim(self, fields: dict[str, Any]) -> Permit:
        await self._aopened()
        return await self._afollow(claimed(fields), fields)

    # One course, two ways to walk it. What a step raised goes to the course, which knows whether it matters.

    def _follow(self, course: Course, fields: dict[str, Any]) -> Permit:
        tool, got = fields["tool"], None
        try:
            op, message, held = next(course)
            while True:
                try:
                    if op == PAUSE:
                        time.sleep(held)
                    else:
                        got = self._door.call(op, self._mine(message), tool=tool, held=held)
                        self._touched()
                except PawlError as e:
                    op, message, held = course.throw(e)
                else:
                    op, message, held = course.send(got)
        except StopIteration as end:
            return self._granted(end.value)
        except (ReviewPending, ProtocolError) as e:
            raise self._held(e, fields)

    async def _afollow(self, course: Course, fields: dict[str, Any]) -> Permit:
        tool, got = fields["tool"], None
        try:
            op, message, held = next(course)
            while True:
                try:
                    if op == PAUSE:
                        await asyncio.sleep(held)
                    else:
                        got = await self._acall(op, self._mine(message), tool, held)
                        self._touched()
                except PawlError as e:
                    op, message, held = course.throw(e)
                else:
                    op, message, held = course.send(got)
        except StopIteration as end:
            return self._granted(end.value)
        except (ReviewPending, ProtocolError) as e:
            raise self._held(e, fields)

    async def _acall(self, op: str, mine: dict[str, Any], tool: str, held: float) -> dict[str, Any]:
        sent = threading.Event()
        try:
            return await self._door.acall(op, mine, tool=tool, on_send=sent.set, held=held)
        except asyncio.CancelledError:
            if op in GRANTING and sent.is_set():
                again = {k: v for k, v in mine.items() if k != "wait"}
                await self._shielded(self._agive_back(op, again), lambda: self._give_back(op, again))
            raise

    # The stream of a cancelled question is gone, and with it the answer. The same question, same client, same call, is
    # not a second one (docs/wire.md, decide): an allow that is open comes again, one that is settled is never repeated.

    async def _agive_back(self, op: str, mine: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(GIVE_BACK):
                got = await self._door.acall(op, mine, GIVE_BACK, mine["tool"])
                report = self._report(_proto.permit(got, mine["call"], mine["tool"]), "not_run")
                await self._door.acall("settle", report, GIVE_BACK, mine["tool"])
        except Exception as e:  # also every no: then nothing is open
            log.debug("nothing to give back for %s: %s", mine["tool"], e)

    def _give_back(self, op: str, mine: dict[str, Any]) -> None:
        end = time.monotonic() + GIVE_BACK
        try:
            got = self._door.call(op, mine, GIVE_BACK, mine["tool"])
            report = self._report(_proto.permit(got, mine["call"], mine["tool"]), "not_run")
            self._door.call("settle", report, max(end - time.monotonic(), 0.05), mine["tool"])
        except Exception as e:
            log.debug("nothing to give back for %s: %s", mine["tool"], e)

    def _mine(self, fields: dict[str, Any]) -> dict[str, Any]:
        if self._ended == ReasonCode.SESSION_CLOSED:
            raise Denied(f"{self!r} was closed here", code=ReasonCode.SESSION_CLOSED, tool=fields.get("tool"))
        return {"session": self.id, "token": self._token, **fields}

    def _granted(self, permit: Permit) -> Permit:
        if permit.limits_ignored:
            log.warning("%s: limits looser than those of an earlier call were ignored", permit.tool)
        if permit.would:
            w = permit.would
            log.info("%s (%s) runs in shadow mode; enforced: %s, %s [%s]", permit.tool, permit.decision, w.verdict, w.message, w.code)
        return permit

    def _held(self, e: ReviewPending | ProtocolError, fields: dict[str, Any]) -> ReviewPending | ProtocolError:
        if isinstance(e, ReviewPending):
            e._asked = (self, fields)
        else:
            e.path, e.path_from = self._door.path, self._door.path_from
        return e
