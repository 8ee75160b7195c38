"""Requests as bytes, replies as checked values. Pure. docs/wire.md, "Messages" and "Agent door".

The one place where a verdict is read: anything but the exact word, in a well-formed reply to this very request, raises.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, NoReturn

from .errors import Malformed, ProtocolError, ReviewPending, Unavailable, refusal
from .reasons import ReasonCode

MAX_MESSAGE = 1 << 20
_SESSION = re.compile(r"s_[0-9]{1,20}", re.ASCII)
_DECISION = re.compile(r"d_[0-9]{1,20}", re.ASCII)
_REVIEW = re.compile(r"r_[0-9]{1,20}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{64}", re.ASCII)
PENDING, RESUMED, SKIPPED, ABORTED, TIMEOUT, CLOSED = "pending", "resumed", "skipped", "aborted", "timeout", "closed"
STATES = (PENDING, RESUMED, SKIPPED, ABORTED, TIMEOUT, CLOSED)
_SILENCE = {ReasonCode.UNAVAILABLE, ReasonCode.LOG_UNAVAILABLE}


@dataclasses.dataclass(frozen=True, slots=True)
class Would:
    """What pawld would have answered, were its policy enforced: in shadow mode a Permit may carry one."""

    verdict: str  # "review" or "deny"
    code: str
    message: str = ""
    rule: str | None = None
    counter: str | None = None
    limit: str | None = None
    unit: str | None = None
    retry_after: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Permit:
    """One allowed call. `decision` names it in the log; settle it once it has ended."""

    decision: str
    call: str
    tool: str
    lease_until: str | None = None
    remaining: dict[str, Any] = dataclasses.field(default_factory=dict)
    log: dict[str, Any] = dataclasses.field(default_factory=dict)
    limits_ignored: bool = False
    would: Would | None = None


def request(op: str, fields: dict[str, Any]) -> bytes:
    """None means absent. ValueError when it cannot be sent at all."""
    message = {"v": 1, "op": op} | {k: v for k, v in fields.items() if v is not None}
    body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    if len(body) > MAX_MESSAGE:
        raise ValueError(
            f"the request has {len(body)} bytes and may have {MAX_MESSAGE}; "
            "send less with @guard(args=fn), a digest for instance"
        )
    return body


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key twice")
    return out


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def reply(raw: bytes, op: str, tool: str | None = None) -> dict[str, Any]:
    """The object of a reply to op. An error reply raises what it means; other bytes raise ProtocolError."""
    try:
        got = json.loads(raw.decode("utf-8"), object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise ProtocolError(f"the reply is not JSON ({e})") from None
    if not isinstance(got, dict) or type(got.get("v")) is not int or got["v"] != 1:
        raise ProtocolError("the reply is not a version 1 message")
    if got.get("error") is not None:
        _refused(got["error"], tool)
    if got.get("op") != op:
        raise ProtocolError(f"asked {op!r} and was answered {got.get('op')!r}")
    return got


def _refused(error: Any, tool: str | None) -> NoReturn:
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        raise ProtocolError("an error reply that cannot be read")
    code, message = error["code"], text(error, "message") or error["code"]
    if code == ReasonCode.MALFORMED:
        raise Malformed(message, field=text(error, "field"))
    if code in _SILENCE:
        raise Unavailable(f"{message} [{code}]")
    raise refusal(code)(message, code=code, tool=tool, retry_after=text(error, "retry_after"))


def opened(got: dict[str, Any]) -> tuple[str, str]:
    session, token = got.get("session"), got.get("token")
    if (
        not isinstance(session, str)
        or not _SESSION.fullmatch(session)
        or not isinstance(token, str)
        or not _TOKEN.fullmatch(token)
    ):
        raise ProtocolError("an opened session without id and token")
    return session, token


def permit(got: dict[str, Any], call: str, tool: str) -> Permit:
    """A Permit for the exact word `allow`; Denied, ReviewPending or ProtocolError for all else."""
    if got.get("call") != call:
        raise ProtocolError(f"the answer is for call {got.get('call')!r}, not for {call!r}")
    verdict, decision = got.get("verdict"), got.get("decision")
    if verdict == "allow":
        if not isinstance(decision, str) or not _DECISION.fullmatch(decision):
            raise ProtocolError("an allow that names no decision")
        return Permit(
            decision,
            call,
            tool,
            text(got, "lease_until"),
            _object(got, "remaining"),
            _object(got, "log"),
            got.get("limits_ignored") is True,
            _would(got),
        )
    if verdict not in ("review", "deny"):
        raise ProtocolError(f"{verdict!r} is no verdict")

    reason, remaining = _object(got, "reason"), _object(got, "remaining")
    rule = text(reason, "rule")
    row = remaining.get(rule) if rule else None
    code = text(reason, "code") or ReasonCode.UNAVAILABLE
    raise (ReviewPending if verdict == "review" else refusal(code))(
        text(reason, "message") or "",
        code=code,
        tool=tool,
        rule=rule,
        counter=text(reason, "counter"),
        limit=text(reason, "limit"),
        unit=text(reason, "unit"),
        decision=text(got, "decision"),
        review=text(got, "review"),
        retry_after=text(got, "retry_after"),
        reset_at=text(row, "reset_at") if isinstance(row, dict) else None,
        remaining=remaining,
        expires=text(got, "expires"),
    )


def _code(word: str) -> str:
    try:
        return ReasonCode(word)
    except ValueError:
        return word  # a newer pawld: keep its word


def _would(got: dict[str, Any]) -> Would | None:
    """Only told, so what cannot be read changes nothing: the verdict was `allow`."""
    would = _object(got, "would")
    verdict, reason = text(would, "verdict"), _object(would, "reason")
    if verdict is None:
        return None
    return Would(
        verdict,
        _code(text(reason, "code") or ReasonCode.UNAVAILABLE),
        text(reason, "message") or "",
        text(reason, "rule"),
        text(reason, "counter"),
        text(reason, "limit"),
        text(reason, "unit"),
        text(would, "retry_after"),
    )


def card(got: dict[str, Any]) -> tuple[str, str]:
    """Which card a verdict `review` speaks of, and its state: in a reply that permit() has read."""
    review = got.get("review")
    if not isinstance(review, str) or not _REVIEW.fullmatch(review):
        raise ProtocolError("a review that names no card")
    return review, _state(got.get("review_state"))


def waited(got: dict[str, Any], review: str) -> str:
    """The state that review.wait tells."""
    if got.get("review") != review:
        raise ProtocolError(f"waited for {review!r} and was told of {got.get('review')!r}")
    return _state(got.get("state"))


def check_review(review: object) -> str:
    if not isinstance(review, str):
        raise TypeError(f"a review's id must be text, not {type(review).__name__}")
    if not _REVIEW.fullmatch(review):
        raise ValueError(f"{review!a} is not a review's id: r_ and a number")
    return review


def _state(word: object) -> str:
    if not isinstance(word, str) or word not in STATES:
        raise ProtocolError(f"{word!r} is no state of a review")
    return word


def settled(got: dict[str, Any], decision: str) -> dict[str, Any]:
    if got.get("decision") != decision:
        raise ProtocolError(f"settled {got.get('decision')!r} instead of {decision!r}")
    return got


def text(d: dict[str, Any], key: str) -> str | None:
    v = d.get(key)
    return v if isinstance(v, str) else None


def _object(d: dict[str, Any], key: str) -> dict[str, Any]:
    v = d.get(key)
    return v if isinstance(v, dict) else {}
