"""Money, counts and spans as the wire has them: text and integers, never a binary float.

Money here is only checked and normalised; pawld alone counts with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

Money = str | int | Decimal
Cost = Money | Mapping[str, Any]

MAX_COUNT = 2**53 - 1
MAX_MONEY = Decimal(2**63 - 1) / 10**9
_MONEY = re.compile(r"[0-9]{1,64}(\.[0-9]{1,64})?", re.ASCII)
_SPAN = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|w)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def money_text(value: object, what: str, *, exact: bool = False) -> str:
    """Decimal text. exact: a limit, where more than 9 decimals cannot be meant; elsewhere pawld rounds them up."""
    if isinstance(value, bool) or not isinstance(value, (str, int, Decimal)):
        if isinstance(value, float):
            raise TypeError(
                f"{what}={value!r} is a float, and a float cannot hold money exactly; "
                f'write it as a string: {what}="{value}"'
            )
        raise TypeError(f"{what} must be a string, int or Decimal, not {type(value).__name__}")
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() > 64:
            raise ValueError(f"{what}={value} is not an amount of money")
        text = format(abs(value) if value == 0 else value, "f")
    else:
        text = str(value)
    if not _MONEY.fullmatch(text):
        raise ValueError(
            f"{what}={value!r} is not an amount of money: digits, optionally a dot and digits; "
            "no sign, exponent or currency"
        )
    if Decimal(text) > MAX_MONEY:
        raise ValueError(f"{what}={value!r} is more than {MAX_MONEY}")
    if exact and len(text.partition(".")[2].rstrip("0")) > 9:
        raise ValueError(f"{what}={value!r} has more than 9 decimals")
    if exact and "." in text:  # zeros past the ninth say nothing, but the wire refuses them
        text = text.rstrip("0").rstrip(".")
    return text


def count(value: object, what: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if not least <= value <= MAX_COUNT:
        raise ValueError(f"{what}={value} must be from {least} to {MAX_COUNT}")
    return value


def tokens(value: object, what: str) -> int | dict[str, int]:
    if isinstance(value, Mapping):
        return {_key(k, what): count(v, f"{what}[{k!r}]") for k, v in value.items()}
    return count(value, what)


def _key(k: object, what: str) -> str:
    if not isinstance(k, str):
        raise TypeError(f"{what} has a key of type {type(k).__name__}")
    return k


def cost_object(value: object, what: str) -> dict[str, Any] | None:
    """An estimate or a cost as the wire has it. None: nothing is known."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return {"money": money_text(value, what)}
    out: dict[str, Any] = {}
    for k, v in value.items():
        if v is None:
            continue
        if k == "money":
            out[k] = money_text(v, f"{what}.money")
        elif k == "tokens":
            out[k] = tokens(v, f"{what}.tokens")
        elif k == "currency":
            if not isinstance(v, str):
                raise TypeError(f"{what}.currency must be text, not {type(v).__name__}")
            out[k] = v
        else:
            raise ValueError(f"{what} knows money, tokens and currency, not {k!r}")
    return out or None


def span_text(seconds: object, what: str, most: int = 86400) -> str:
    """Seconds -> `30s` or `250ms`, rounded up to the millisecond."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, Decimal)):
        raise TypeError(f"{what} must be a number of seconds, not {type(seconds).__name__}")
    if not math.isfinite(seconds) or not 0 < seconds <= most:
        raise ValueError(f"{what}={seconds} must be above 0 and at most {most} seconds")
    ms = math.ceil(Decimal(str(seconds)) * 1000)
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"


def duration_text(ns: int) -> str:
    us = max(ns, 0) // 1000
    return f"{us // 1000}.{us % 1000:03d}ms" if us % 1000 else f"{us // 1000}ms"


def span_seconds(text: object) -> float | None:
    m = _SPAN.fullmatch(text) if isinstance(text, str) else None
    return float(m[1]) * _SECONDS[m[2]] if m else None
