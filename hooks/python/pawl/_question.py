"""What a program says about sessions and calls, checked and put into the wire's forms before pawld hears of it.

Pure but for call ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from . import _money, _process
from ._encode import encode_args
from ._money import Cost, Money

KINDS = ("tool", "llm", "delegate", "http", "code")
MAX_WAIT = 30 * 86400  # seconds; no card waits longer
TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}", re.ASCII)
_SHARE = re.compile(r"100%|[1-9][0-9]?%", re.ASCII)


def session_limits(limits: Mapping[str, Any] | None, child: bool) -> dict[str, Any] | None:
    """child: money may be a share of what its parent has left."""
    if limits is None:
        return None
    out: dict[str, Any] = {}
    for k, v in limits.items():
        what = f"limits[{k!r}]"
        if k == "money":
            share = isinstance(v, str) and "%" in v
            out[k] = _share(v, what, child) if share else _money.money_text(v, what, exact=True)
        elif k in ("tokens", "calls"):
            out[k] = _money.count(v, what)
        elif k == "time":
            out[k] = v if isinstance(v, str) else _money.span_text(v, what, 10**9)
        else:
            raise ValueError(f"limits knows money, tokens, calls and time, not {k!r}")
    return out or None


def _share(text: str, what: str, child: bool) -> str:
    if not child:
        raise ValueError(f"{what}={text!r} is a share, and only a child session has a parent to share with")
    if not _SHARE.fullmatch(text):
        raise ValueError(f"{what}={text!r} is no share: 1% to 100%, without decimals")
    return text


def wait_seconds(wait: str | float | None) -> float | None:
    """How long a person is waited for: `30s`, `5m`, or seconds."""
    if wait is None:
        return None
    seconds = _money.span_seconds(wait) if isinstance(wait, str) else wait
    if seconds is None:
        raise ValueError(f"wait={wait!r} is no span: 30s, 500ms, 5m, or a number of seconds")
    _money.span_text(seconds, "wait", MAX_WAIT)
    return float(seconds)


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


def question(
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
