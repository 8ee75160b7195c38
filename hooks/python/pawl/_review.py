"""The way of one question to its permit, also past a person: decide, wait, claim. Pure: a Course says what to send next
and is told what came back; _client.py walks it, with threads or with asyncio.

A person's yes is no permit. It is told as the state `resumed`, and only the answer `allow` to a claim lets a body run.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from . import _money, _proto
from ._proto import Permit
from .errors import Aborted, Denied, PawlError, ReviewPending, Skipped, refusal
from .reasons import ReasonCode

Step = tuple[str, dict[str, Any], float]  # op, fields, seconds for which pawld may keep the answer back
Course = Generator[Step, Any, Permit]

PAUSE = ""  # in place of an op: only let time pass
GRANTING = ("decide", "claim")  # the ops that may leave a call allowed
MAX_HELD = 60.0  # seconds a request, docs/wire.md
SOON = 0.2  # a wait that ends this early without an answer is not asked again at once


def asked(fields: dict[str, Any], wait: float | None) -> Course:
    if wait is None:
        got = yield "decide", fields, 0.0
        return _proto.permit(got, fields["call"], fields["tool"])
    until = time.monotonic() + wait
    held = min(wait, MAX_HELD)
    got = yield "decide", {**fields, "wait": _span(held)}, held
    seen: set[str] = set()
    while True:
        try:
            return _proto.permit(got, fields["call"], fields["tool"])
        except ReviewPending as e:
            pending = e
        review, state = _proto.card(got)
        if review in seen:  # a claim that names its own card: not answered after all
            raise pending
        seen.add(review)
        state = yield from _answer(review, state, until)
        if state == _proto.PENDING:
            raise pending
        if state != _proto.RESUMED:
            raise (yield from _no(review, state, pending))
        got = yield "claim", {**fields, "review": review}, 0.0  # it may be a review again, of another card


def claimed(fields: dict[str, Any]) -> Course:
    got = yield "claim", fields, 0.0
    return _proto.permit(got, fields["call"], fields["tool"])


def _answer(review: str, state: str, until: float) -> Generator[Step, Any, str]:
    """The card's state once it is answered, or PENDING when the time is over."""
    while state == _proto.PENDING and (left := until - time.monotonic()) > 0:
        held, began = min(left, MAX_HELD), time.monotonic()
        got = yield "review.wait", {"review": review, "wait": _span(held)}, held
        state = _proto.waited(got, review)
        if state == _proto.PENDING and time.monotonic() - began < min(SOON, held):
            yield PAUSE, {}, min(SOON, max(until - time.monotonic(), 0.0))
    return state


def _no(review: str, state: str, pending: ReviewPending) -> Generator[Step, Any, Denied]:
    """What the state means. The way to it only finds out more: who said so, or what closed the card."""
    facts: dict[str, Any] = {
        "tool": pending.tool,
        "rule": pending.rule,
        "decision": pending.decision,
        "review": review,
        "remaining": pending.remaining,
    }
    if state == _proto.TIMEOUT:
        return Denied("nobody answered in time", code=ReasonCode.REVIEW_TIMEOUT, **facts)
    if state == _proto.CLOSED:
        ended = (yield "session.state", {}, 0.0).get("ended")
        code, why = _ENDS.get(ended if isinstance(ended, str) else "", _CHANGED)
        return refusal(code)(why, code=code, **facts)
    try:
        told = yield "review.wait", {"review": review}, 0.0
    except PawlError:
        told = {}
    who, reason = _proto.text(told, "operator"), _proto.text(told, "reason")
    facts |= {"operator": who, "operator_reason": reason}
    if state == _proto.SKIPPED:
        return Skipped(reason or "", code=ReasonCode.REVIEW_SKIPPED, **facts)
    return Aborted(reason or "", code=ReasonCode.REVIEW_ABORTED, **facts)


_CHANGED = (ReasonCode.POLICY_CHANGED, "the question was closed unanswered")
_ENDS = {
    "aborted": (ReasonCode.SESSION_ABORTED, "the session was aborted by a person"),
    "closed": (ReasonCode.SESSION_CLOSED, "the session was closed while it waited"),
    "stale": (ReasonCode.STALE_SESSION, "the session's lease ran out while it waited"),
}


def _span(seconds: float) -> str:
    return _money.span_text(max(seconds, 0.001), "wait")
