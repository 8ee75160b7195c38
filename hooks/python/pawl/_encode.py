"""Python values -> JSON values that mean the same to a policy, and the canonical text of those.

What has no safe JSON form is refused here, before anything is asked: the call that is judged must be the call that
runs. docs/python.md lists the forms.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import hashlib
import json
import math
import os
import pathlib
import uuid
from decimal import Decimal
from typing import Any

MAX_DEPTH = 32  # of the whole message; arguments are its second level
MAX_NODES = 600_000  # more cannot fit into 1 MiB
BYTES_KEY = "$bytes"
_I64 = range(-(2**63), 2**63)
_quote = json.encoder.encode_basestring


class _Walk:
    """One encoding: where we are (for the message) and how much was seen (so that a huge value ends early)."""

    __slots__ = ("nodes", "volume", "at")

    def __init__(self, nodes: int, volume: int) -> None:
        self.nodes = nodes
        self.volume = volume
        self.at = ""

    def value(self, v: Any, at: str, level: int) -> Any:
        self.at = at
        self.nodes -= 1
        if self.nodes < 0:
            raise ValueError(f"{at}: too many values")
        if v is None or v is True or v is False:
            return v
        if isinstance(v, enum.Enum):  # before str and int: StrEnum, IntEnum
            return self.value(v.value, at, level)
        if isinstance(v, str):
            return self.text(str.__str__(v), at)
        if isinstance(v, int):
            if int(v) not in _I64:
                raise ValueError(f"{at}: {v.bit_length()}-bit integer does not fit into 64 bits; pass it as text")
            return int(v)
        if isinstance(v, float):
            if not math.isfinite(v):
                raise ValueError(f"{at}: {v} is not a finite number")
            return float(v)
        if isinstance(v, Decimal):
            return self.decimal(v, at)
        if isinstance(v, (bytes, bytearray, memoryview)):
            raw = bytes(v)
            self.grow(len(raw), at)
            return {BYTES_KEY: base64.b64encode(raw).decode("ascii")}
        if isinstance(v, pathlib.PurePath):
            return self.text(os.fspath(v), at)
        if isinstance(v, (datetime.datetime, datetime.date, datetime.time)):
            return v.isoformat()
        if isinstance(v, uuid.UUID):
            return str(v)
        return self.container(v, at, level + 1)

    def container(self, v: Any, at: str, level: int) -> Any:
        if level > MAX_DEPTH:
            raise ValueError(f"{at}: nested deeper than {MAX_DEPTH} levels (or inside itself)")
        if isinstance(v, dict):
            out = {(text := self.key(k, at)): self.value(x, f"{at}.{text}", level) for k, x in v.items()}
            if len(out) != len(v):
                raise ValueError(f"{at}: two keys are the same text")
            if out.keys() == {BYTES_KEY}:  # else a dict could pass for bytes that someone approved
                raise ValueError(f"{at}: an object with the one key {BYTES_KEY!r} stands for bytes")
            return out
        if isinstance(v, (list, tuple)):
            return [self.value(x, f"{at}[{i}]", level) for i, x in enumerate(v)]
        if isinstance(v, (set, frozenset)):
            return sorted((self.value(x, f"{at}{{}}", level) for x in v), key=canonical)
        if dataclasses.is_dataclass(v) and not isinstance(v, type):
            return {f.name: self.field(v, f.name, f"{at}.{f.name}", level) for f in dataclasses.fields(v)}
        raise TypeError(
            f"{at}: {type(v).__module__}.{type(v).__qualname__} has no JSON form that pawl knows; "
            "say what to send with @guard(args=fn)"
        )

    def field(self, v: Any, name: str, at: str, level: int) -> Any:
        self.at = at  # an unset field is told by its name
        return self.value(getattr(v, name), at, level)

    def key(self, k: Any, at: str) -> str:
        if isinstance(k, enum.Enum):
            k = k.value
        if not isinstance(k, str):
            raise TypeError(f"{at}: key {k!r} is not text")
        return self.text(str.__str__(k), f"key of {at}")

    def text(self, s: str, at: str) -> str:
        self.grow(len(s), at)
        if "\0" in s:
            raise ValueError(f"{at}: text with a NUL character")
        if not s.isascii():
            try:
                s.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError(f"{at}: text that is not valid Unicode (lone surrogate)") from None
        return s

    def decimal(self, v: Decimal, at: str) -> int | float | str:
        """A JSON number where one holds it exactly, so that `below: 20` can look at it; else its digits as text."""
        if not v.is_finite():
            raise ValueError(f"{at}: {v} is not a finite number")
        if v.adjusted() <= 19:
            if v == v.to_integral_value() and int(v) in _I64:
                return int(v)
            near = float(v)
            if math.isfinite(near) and Decimal(repr(near)) == v:
                return near
        return str(v)

    def grow(self, n: int, at: str) -> None:
        self.volume -= n
        if self.volume < 0:
            raise ValueError(f"{at}: too large")


def encode_args(args: dict[str, Any]) -> dict[str, Any]:
    """The `args` object of a decide. ValueError or TypeError name the argument at fault, whatever its code raised."""
    walk = _Walk(MAX_NODES, 8 << 20)
    try:
        out = walk.container(args, "args", 2)
    except (TypeError, ValueError):
        raise
    except Exception as e:
        raise ValueError(
            f"{walk.at or 'args'}: {type(e).__name__} was raised while it was read; "
            "say what to send with @guard(args=fn)"
        ) from e
    assert isinstance(out, dict)
    return out


def canonical(v: Any) -> bytes:
    """RFC 8785 text of an encoded value; integers within 64 bits keep their digits."""
    parts: list[str] = []
    _write(v, parts)
    return "".join(parts).encode("utf-8")


def _write(v: Any, out: list[str]) -> None:
    if v is None:
        out.append("null")
    elif v is True:
        out.append("true")
    elif v is False:
        out.append("false")
    elif isinstance(v, str):
        out.append(_quote(v))
    elif isinstance(v, int):
        out.append(str(v))
    elif isinstance(v, float):
        out.append(number_text(v))
    elif isinstance(v, dict):
        mark = "{"
        for k in sorted(v, key=lambda k: k.encode("utf-16-be")):
            out.append(f"{mark}{_quote(k)}:")
            _write(v[k], out)
            mark = ","
        out.append("}" if v else "{}")
    else:
        mark = "["
        for x in v:
            out.append(mark)
            _write(x, out)
            mark = ","
        out.append("]" if v else "[]")


def number_text(x: float) -> str:
    """A double as ECMAScript writes it: the same shortest digits as repr(), another place for the point."""
    if x == 0:
        return "0"
    sign, digits, exp = Decimal(repr(x)).normalize().as_tuple()
    assert isinstance(exp, int)
    d = "".join(map(str, digits))
    point = len(d) + exp  # 0.d × 10^point
    if 0 < point <= 21:
        s = d.ljust(point, "0") if len(d) <= point else f"{d[:point]}.{d[point:]}"
    elif -6 < point <= 0:
        s = f"0.{'0' * -point}{d}"
    else:
        s = f"{d[0]}{'.' + d[1:] if len(d) > 1 else ''}e{point - 1:+d}"
    return f"-{s}" if sign else s


def digest(value: Any) -> dict[str, Any] | None:
    """{sha256, bytes} of a result's canonical text; None when it has no JSON form, cannot be read, or is too large."""
    try:
        text = canonical(_Walk(100_000, 16 << 20).value(value, "result", 1))
    except Exception:  # reading runs the result's own code: unset fields, closed cursors, another thread's changes
        return None
    return {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
