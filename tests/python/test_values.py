"""What goes on the wire and what is refused before anything is asked: arguments, money, spans. No daemon here."""

import dataclasses
import datetime as dt
import enum
import json
import struct
import uuid
from decimal import Decimal
from pathlib import Path, PurePosixPath

import pytest
from conftest import ROOT

from pawl import _encode, _money


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    A = "a"


@dataclasses.dataclass
class Point:
    x: int
    where: Path


class Text(str):
    def __str__(self):
        return "something else"


ME = []
ME.append(ME)

FORMS = [
    ("none", None, None),
    ("bool", True, True),
    ("int", 7, 7),
    ("int64 ends", [2**63 - 1, -(2**63)], [2**63 - 1, -(2**63)]),
    ("float", 1.5, 1.5),
    ("text", "é\n", "é\n"),
    ("empty", "", ""),
    ("str subclass is its text", Text("a"), "a"),
    ("bytes", b"\0\xff", {"$bytes": "AP8="}),
    ("bytearray", bytearray(b"a"), {"$bytes": "YQ=="}),
    ("memoryview", memoryview(b"a"), {"$bytes": "YQ=="}),
    ("path", Path("a/b.txt"), "a/b.txt"),
    ("pure path", PurePosixPath("/x"), "/x"),
    ("decimal integer", Decimal("10.00"), 10),
    ("decimal that a double holds", Decimal("19.99"), 19.99),
    ("decimal that none holds", Decimal("4800.00000000000000001"), "4800.00000000000000001"),
    ("huge decimal", Decimal("1E+400"), "1E+400"),
    ("tiny decimal", Decimal("1E-400"), "1E-400"),
    ("decimal beyond int64", Decimal(2**63), "9223372036854775808"),
    ("datetime", dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2026-01-02T03:04:05+00:00"),
    ("naive", dt.datetime(2026, 1, 2), "2026-01-02T00:00:00"),
    ("date", dt.date(2026, 1, 2), "2026-01-02"),
    ("time", dt.time(3, 4), "03:04:00"),
    ("uuid", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ("enum", Colour.RED, "red"),
    ("int enum", Level.HIGH, 3),
    ("str enum", Word.A, "a"),
    ("set", {3, 1, 2}, [1, 2, 3]),
    ("frozenset", frozenset({"b", "a"}), ["a", "b"]),
    ("mixed set", {"1", 1}, ["1", 1]),
    ("tuple", (1, (2,)), [1, [2]]),
    ("dataclass", Point(1, Path("p")), {"x": 1, "where": "p"}),
    ("enum key", {Word.A: 1}, {"a": 1}),
    ("dict with more than the bytes key", {"$bytes": "x", "y": 1}, {"$bytes": "x", "y": 1}),
]

REFUSED = [
    ("B07 NaN", float("nan"), ValueError),
    ("B07 inf", float("inf"), ValueError),
    ("B07 -inf", [float("-inf")], ValueError),
    ("2^63", 2**63, ValueError),
    ("-2^63-1", -(2**63) - 1, ValueError),
    ("huge int", 10**5000, ValueError),
    ("lone surrogate", "a\ud800", ValueError),
    ("surrogate in a key", {"\udfff": 1}, ValueError),
    ("undecodable path", Path("\udcff"), ValueError),
    ("U14 NUL", "a\0b", ValueError),
    ("decimal NaN", Decimal("NaN"), ValueError),
    ("decimal sNaN", Decimal("sNaN"), ValueError),
    ("decimal inf", Decimal("Infinity"), ValueError),
    ("inside itself", ME, ValueError),
    ("posing as bytes", {"$bytes": "AP8="}, ValueError),
    ("equal keys", {"a": 1, Word.A.__class__("a"): 2, Text("a"): 3, Colour.RED: 1, "red": 2}, ValueError),
    ("too large", "x" * (9 << 20), ValueError),
    ("object", object(), TypeError),
    ("class", Point, TypeError),
    ("function", len, TypeError),
    ("int key", {1: 2}, TypeError),
    ("complex", 1j, TypeError),
    ("generator", (x for x in ()), TypeError),
    ("timedelta", dt.timedelta(1), TypeError),
    ("range", range(3), TypeError),
]


@pytest.mark.parametrize("value, want", [r[1:] for r in FORMS], ids=[r[0] for r in FORMS])
def test_form(value, want):
    got = _encode.encode_args({"a": value})["a"]
    assert got == want and type(got) is type(want)
    json.dumps(got, allow_nan=False)


@pytest.mark.parametrize("value, error", [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_by_name(value, error):
    with pytest.raises(error, match="args"):
        _encode.encode_args({"a": value})


def test_depth_counts_the_whole_message():
    def nest(levels):
        value = 0
        for _ in range(levels):
            value = [value]
        return {"a": value}

    _encode.encode_args(nest(30))  # message 1, args 2, then 30
    with pytest.raises(ValueError, match="32 levels"):
        _encode.encode_args(nest(31))


CANON = ROOT / "tests/vectors/canon"  # shared with policy/canon.c


def test_number_as_ecmascript_writes_it():
    rows = [line.split() for line in (CANON / "numbers.txt").read_text().splitlines()]
    assert len(rows) > 25
    for bits, want in rows:
        assert _encode.number_text(struct.unpack(">d", bytes.fromhex(bits))[0]) == want


@pytest.mark.parametrize("path", sorted(CANON.glob("*.json")), ids=lambda p: p.stem)
def test_shared_vectors(path):
    assert _encode.canonical(json.loads(path.read_text())) == path.with_suffix(".canon").read_bytes()


def test_canonical_text():
    value = {
        "€": 1,
        "\r": 2,
        "\ufb33": 3,
        "1": 4,
        "\U0001f600": 5,
        "\x80": 6,
        "ö": 7,
        "n": [1.0, -0.0, 1e21, '\x1f"\\/\b', True, None, {}, []],
    }
    assert (
        _encode.canonical(value)
        == (
            '{"\\r":2,"1":4,"n":[1,0,1e+21,"\\u001f\\"\\\\/\\b",true,null,{},[]],"\x80":6,"ö":7,"€":1,"\U0001f600":5,"\ufb33":3}'
        ).encode()
    )


def test_result_digest_or_none():
    assert _encode.digest({"b": 1.0, "a": b"x"}) == _encode.digest({"a": b"x", "b": 1})
    assert _encode.digest(None)["bytes"] == 4
    assert (
        _encode.digest("")["sha256"] == "12ae32cb1ec02d01eda3581b127c1fee3b0dc53572ed6baf239721a03d82e126"
    )  # of two quotes
    for value in (object(), float("nan"), ME, list(range(200_000)), 2**70):
        assert _encode.digest(value) is None


MONEY = [
    ("0.50", "0.5"),
    ("1", "1"),
    (2, "2"),
    (Decimal("0.10"), "0.1"),
    (Decimal("1E+2"), "100"),
    (Decimal("-0"), "0"),
    ("0", "0"),
    ("0.1234567890", "0.123456789"),
    ("9223372036.854775807", "9223372036.854775807"),
]
NO_MONEY = [
    (0.5, TypeError),
    (float("nan"), TypeError),
    (True, TypeError),
    (None, TypeError),
    (b"1", TypeError),
    ("-1", ValueError),
    (-1, ValueError),
    ("1e3", ValueError),
    ("NaN", ValueError),
    ("inf", ValueError),
    ("", ValueError),
    (".5", ValueError),
    ("5.", ValueError),
    ("0.50 USD", ValueError),
    ("+1", ValueError),
    (" 1", ValueError),
    ("1\n", ValueError),
    ("١", ValueError),
    ("1_000", ValueError),
    (Decimal("NaN"), ValueError),
    (Decimal("Infinity"), ValueError),
    (Decimal("1E+999999"), ValueError),
    ("9223372036.854775808", ValueError),
    ("0.1234567891", ValueError),
]


@pytest.mark.parametrize("value, want", MONEY)
def test_money(value, want):
    assert _money.money_text(value, "budget", exact=True) == want


@pytest.mark.parametrize("value, error", NO_MONEY)
def test_no_money(value, error):  # B07, S13
    with pytest.raises(error, match="budget"):
        _money.money_text(value, "budget", exact=True)


def test_float_money_says_what_to_write():
    with pytest.raises(TypeError, match='write it as a string: budget="0.5"'):
        _money.money_text(0.5, "budget")


def test_more_decimals_only_where_pawld_rounds_up():
    assert _money.money_text("0.1234567891", "estimate") == "0.1234567891"


COSTS = [
    ("0.1", {"money": "0.1"}),
    ({"money": "1", "tokens": {"input": 3}}, {"money": "1", "tokens": {"input": 3}}),
    ({"tokens": 0}, {"tokens": 0}),
    ({"currency": "EUR", "money": 1}, {"currency": "EUR", "money": "1"}),
    (None, None),
    ({}, None),
    ({"money": None}, None),
]


@pytest.mark.parametrize("value, want", COSTS)
def test_cost(value, want):
    assert _money.cost_object(value, "cost") == want


@pytest.mark.parametrize(
    "value",
    [
        {"mony": "1"},
        {"tokens": -1},
        {"tokens": 2**53},
        {"tokens": 1.5},
        {"tokens": True},
        {"tokens": {"in": "3"}},
        {"money": 0.1},
        {"tokens": {1: 1}},
        {"currency": 3},
        0.1,
    ],
)
def test_no_cost(value):
    with pytest.raises((TypeError, ValueError)):
        _money.cost_object(value, "cost")


@pytest.mark.parametrize(
    "seconds, want",
    [(30, "30s"), (0.25, "250ms"), (1.0, "1s"), (0.0001, "1ms"), (1.2345, "1235ms"), (Decimal("0.1"), "100ms")],
)
def test_span(seconds, want):
    assert _money.span_text(seconds, "timeout_seconds") == want


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "30", None, 86401])
def test_no_span(seconds):
    with pytest.raises((TypeError, ValueError), match="timeout_seconds"):
        _money.span_text(seconds, "timeout_seconds")


@pytest.mark.parametrize(
    "text, want",
    [
        ("30s", 30),
        ("250ms", 0.25),
        ("5m", 300),
        ("1.5h", 5400),
        ("1w", 604800),
        ("1y", None),
        ("s", None),
        (3, None),
        (None, None),
    ],
)
def test_span_read(text, want):
    assert _money.span_seconds(text) == want


def test_duration_text():
    assert [_money.duration_text(n) for n in (0, 999, 1_000, 1_500_000, 2_000_000_000, -5)] == [
        "0ms",
        "0ms",
        "0.001ms",
        "1.500ms",
        "2000ms",
        "0ms",
    ]
