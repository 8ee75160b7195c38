"""Requests as bytes, replies as checked values. Pure. docs/wire.md, "Messages" and "Agent door".

The one place where a verdict is read: anything but the exact word, in a well-formed reply to this very request, raises.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, NoReturn

from .errors import Denied, Malformed, ProtocolError, ReviewPending, Unavailable
from .reasons import ReasonCode

MAX_MESSAGE = 1 << 20
_SESSION = re.compile(r"s_[0-9]{1,20}", re.ASCII)
_DECISION = re.compile(r"d_[0-9]{1,20}", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SILENCE = {ReasonCode.UNAVAILABLE, ReasonCode.LOG_UNAVAILABLE}


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
    code, message = error["code"], _text(error, "message") or error["code"]
    if code == ReasonCode.MALFORMED:
        raise Malformed(message, field=_text(error, "field"))
    if code in _SILENCE:
        raise Unavailable(f"{message} [{code}]")
    raise Denied(message, code=code, tool=tool, retry_after=_text(error, "retry_after"))


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
            _text(got, "lease_until"),
            _object(got, "remaining"),
            _object(got, "log"),
            got.get("limits_ignored") is True,
        )
    if verdict not in ("review", "deny"):
        raise ProtocolError(f"{verdict!r} is no verdict")

    reason, remaining = _object(got, "reason"), _object(got, "remaining")
    rule = _text(reason, "rule")
    row = remaining.get(rule) if rule else None
    kind = ReviewPending if verdict == "review" else Denied
    raise kind(
        _text(reason, "message") or "",
        code=_text(reason, "code") or ReasonCode.UNAVAILABLE,
        tool=tool,
        rule=rule,
        counter=_text(reason, "counter"),
        limit=_text(reason, "limit"),
        unit=_text(reason, "unit"),
        decision=_text(got, "decision"),
        review=_text(got, "review"),
        retry_after=_text(got, "retry_after"),
        reset_at=_text(row, "reset_at") if isinstance(row, dict) else None,
        remaining=remaining,
    )


def settled(got: dict[str, Any], decision: str) -> dict[str, Any]:
    if got.get("decision") != decision:
        raise ProtocolError(f"settled {got.get('decision')!r} instead of {decision!r}")
    return got


def _text(d: dict[str, Any], key: str) -> str | None:
    v = d.get(key)
    return v if isinstance(v, str) else None


def _object(d: dict[str, Any], key: str) -> dict[str, Any]:
    v = d.get(key)
    return v if isinstance(v, dict) else {}
