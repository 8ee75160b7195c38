"""B07, D04, U14, S9, P4: every field of every op, broken in every way, over the real socket.

Each row is sent to a live daemon. Right: an `error` that names the field, no change of state (session.state as before, log sequence as
before, no budget moved), and the daemon goes on. Rows are generated from FIELDS and BAD; add a field or a way there.
"""
from __future__ import annotations

import json
import random
import socket
import struct
import time

import pytest

import live
from live import Stream, until
from sp import HELLO, HELLO_BACK

MARK = '"@@RAW@@"'
TEXT_256 = "text256"

# op -> field -> (required, kind). Kinds are the rows of BAD.
FIELDS = {
    "hello": {},
    "session.open": {
        "agent": (True, "text64"), "agent_token": (False, "text"), "root": (False, "path"), "labels": (False, "object"),
        "labels.run": (False, TEXT_256), "limits": (False, "object"), "limits.money": (False, "money_exact"), "limits.tokens": (False, "count"),
        "limits.calls": (False, "count"), "limits.time": (False, "span"),
    },
    "decide": {
        "session": (True, "session"), "token": (True, "token"), "client": (True, "hex32"), "call": (True, "call"), "kind": (False, "word"),
        "tool": (True, "tool"), "args": (True, "object"), "estimate": (False, "object"), "estimate.money": (False, "money"),
        "estimate.tokens": (False, "tokens"), "estimate.currency": (False, "currency"), "limits": (False, "object"),
        "limits.money": (False, "money_exact"), "limits.repeat": (False, "count1"), "limits.lease": (False, "span"), "wait": (False, "wait"),
    },
    "settle": {
        "session": (True, "session"), "token": (True, "token"), "decision": (True, "decision"), "outcome": (True, "word"),
        "cost": (False, "object"), "cost.money": (False, "money"), "cost.tokens": (False, "tokens"), "cost.currency": (False, "currency"),
        "result": (False, "object"), "result.sha256": (False, "hex64"), "result.bytes": (False, "count"), "error": (False, "object"),
        "error.kind": (False, TEXT_256), "error.sha256": (False, "hex64"), "duration": (False, "span"),
    },
    "session.state": {"session": (True, "session"), "token": (True, "token")},
    "session.close": {"session": (True, "session"), "token": (True, "token")},
    "heartbeat": {"session": (True, "session"), "token": (True, "token")},
}
OPERATOR = {"status": {}, "session.list": {"after": (False, "session"), "limit": (False, "limit")}, "policy.show": {}}

# What is wrong for any text, as raw JSON (latin-1: these are the bytes that are sent).
NOT_TEXT = {"number": "7", "real": "7.5", "bool": "true", "list": "[]", "object": "{}", "nan": "NaN", "minus inf": "-Infinity",
            "bare word": "yes", "cut": '"abc', "single quotes": "'a'"}
BROKEN_TEXT = {"nul escape": '"a\\u0000b"', "nul byte": '"a\x00b"', "bad utf-8": '"a\xff"', "overlong": '"\xc0\xaf"',
               "utf-8 surrogate": '"\xed\xa0\x80"', "lone surrogate": '"\\ud800"', "raw newline": '"a\nb"', "bad escape": '"\\x41"'}
LINE = {"newline": '"a\\nb"', "escape": '"a\\u001bb"', "empty": '""'}
NOT_OBJECT = {"number": "7", "text": '"x"', "list": "[]", "bool": "false", "nan": "NaN"}
NOT_NUMBER = {"text": '"7x"', "list": "[]", "bool": "true", "nan": "NaN", "infinity": "Infinity", "minus": "-1", "fraction": "1.5",
              "huge": "1e400", "over int64": "9223372036854775808", "over 2^53": "9007199254740993", "leading zero": "007", "plus": "+1", "hex": "0x10"}
BAD_MONEY = {"number": "0.5", "nan": '"NaN"', "nan bare": "NaN", "minus": '"-1"', "minus zero": '"-0"', "exponent": '"1e400"', "b07": '"1e309"', "inf": '"Infinity"',
             "huge": '"99999999999999999999"', "above int64": '"9223372036.854775808"', "empty": '""', "blank": '" 1"', "plus": '"+1"', "comma": '"1,5"',
             "two points": '"1.2.3"', "no whole": '".5"', "no part": '"5."', "hex": '"0x10"', "unit": '"5 USD"', "arabic": '"\xd9\xa1"',
             "long": '"' + "1" * 4000 + '"'}
BAD_SPAN = {"number": "30", "bare": '"30"', "minus": '"-1s"', "unit": '"5y"', "huge": '"99999999999999h"', "exponent": '"1e3s"', "empty": '""', "nan": '"NaNs"'}

BAD = {
    "text": {**NOT_TEXT, **BROKEN_TEXT},
    "text64": {**NOT_TEXT, **BROKEN_TEXT, **LINE, "long": '"' + "a" * 65 + '"'},
    TEXT_256: {**NOT_TEXT, **BROKEN_TEXT, "newline": '"a\\nb"', "long": '"' + "a" * 257 + '"'},
    "path": {**NOT_TEXT, **BROKEN_TEXT, "relative": '"srv/x"', "empty": '""', "long": '"/' + "a" * 5000 + '"'},
    "call": {**NOT_TEXT, **BROKEN_TEXT, **LINE, "long": '"' + "c" * 129 + '"'},
    # D04, U14: a name outside the small ASCII set is malformed, never guessed at
    "tool": {**NOT_TEXT, **BROKEN_TEXT, **LINE, "long": '"' + "t" * 129 + '"', "cyrillic": '"web_s\\u0435arch"', "zero width": '"web\\u200bsearch"',
             "full width": '"\\uff57eb"', "right to left": '"web\\u200fsearch"', "line separator": '"web\\u2028"', "blank": '"web search"', "star": '"web*"'},
    "word": {**NOT_TEXT, **BROKEN_TEXT, "unknown": '"sideways"', "case": '"OK"', "empty": '""'},
    "currency": {**NOT_TEXT, **BROKEN_TEXT, "another": '"EUR"', "empty": '""'},
    "hex32": {**NOT_TEXT, **BROKEN_TEXT, "short": '"' + "a" * 31 + '"', "long": '"' + "a" * 33 + '"', "not hex": '"' + "g" * 32 + '"'},
    "hex64": {**NOT_TEXT, **BROKEN_TEXT, "short": '"' + "a" * 63 + '"', "long": '"' + "a" * 65 + '"', "not hex": '"' + "g" * 64 + '"'},
    "token": {**NOT_TEXT, **BROKEN_TEXT, "short": '"aa"', "long": '"' + "a" * 65 + '"', "not hex": '"' + "g" * 64 + '"'},
    "session": {**NOT_TEXT, **BROKEN_TEXT, "other letter": '"d_1"', "no number": '"s_"', "zero before": '"s_01"', "minus": '"s_-1"',
                "huge": '"s_99999999999999999999"', "blank": '"s_1 "', "empty": '""'},
    "decision": {**NOT_TEXT, **BROKEN_TEXT, "other letter": '"s_1"', "no number": '"d_"', "zero before": '"d_01"', "plus": '"d_+1"', "never made": '"d_999999"'},
    "object": NOT_OBJECT,
    "count": NOT_NUMBER,
    "count1": {**NOT_NUMBER, "zero": "0"},
    "limit": {**NOT_NUMBER, "above": "1001"},
    "tokens": {**NOT_NUMBER, "class minus": '{"input":-1}', "class text": '{"input":"1"}', "sum too large": '{"a":9007199254740991,"b":9007199254740991}'},
    "money": BAD_MONEY,
    "money_exact": {**BAD_MONEY, "ten decimals": '"0.0000000001"'},
    "span": BAD_SPAN,
    "wait": {**BAD_SPAN, "over 60 s": '"61s"'},
}
# These are the fault of the field inside, and that one is named.
INNER = {("tokens", "class minus"): "input", ("tokens", "class text"): "input", ("tokens", "sum too large"): "b"}


def put(message: dict, path: str, value) -> None:
    *way, last = path.split(".")
    for step in way:
        message = message.setdefault(step, {})
    message[last] = value


def raw(message: dict, path: str, text: str) -> bytes:
    """The message with the field's value replaced by these very bytes."""
    put(message, path, "@@RAW@@")
    body = json.dumps(message)
    assert body.count(MARK) == 1
    return body.replace(MARK, text).encode("latin-1")


def twice(message: dict, path: str) -> bytes:
    *way, last = path.split(".")
    at = message
    for step in way:
        at = at.setdefault(step, {})
    value = json.dumps(at.get(last, "x"))
    return raw(message, path, f"{value},{json.dumps(last)}:{value}")


class Bench:
    """One session with one open decision, and valid messages of every op to break."""

    def __init__(self, d: live.Live):
        self.d = d
        self.session = d.session()
        self.open = self.session.decide("work", {"n": 1}, money="1")
        assert self.open["verdict"] == "allow", self.open
        self.operator = Stream(d.operator)

    def good(self, op: str) -> dict:
        s = self.session
        if op in ("status", "session.list", "policy.show"):
            return {"v": 1, "op": op}
        if op == "hello":
            return {"v": 1, "op": "hello"}
        if op == "session.open":
            return {"v": 1, "op": op, "agent": "local", "labels": {"run": "1"}, "limits": {"money": "5"}}
        if op == "decide":
            return {**s.decide_message("work", {"n": 2}, money="0.5"), "kind": "tool"}
        if op == "settle":
            return s.message("settle", decision=self.open["decision"], outcome="ok", cost={"money": "0.5"})
        return s.message(op)

    def picture(self) -> tuple:
        state = self.session.state()
        state.pop("expires")
        status = self.d.status()
        return json.dumps(state, sort_keys=True), status["log"]["seq"], status["sessions"]["live"]

    def send(self, op: str, body: bytes) -> dict:
        stream = self.operator if op in OPERATOR else self.session.stream
        return json.loads(stream.ask_bytes(body))

    def refused(self, op: str, body: bytes, field: str | None, code: str = "malformed") -> str | None:
        """None, or what is wrong with the answer."""
        reply = self.send(op, body)
        error = reply.get("error")
        if not error:
            return f"accepted: {reply}"
        if error["code"] != code:
            return f"code {error['code']}, not {code}: {error}"
        got = error.get("field")
        if got != field:
            return f"names {got!r}, not {field!r}: {error['message']}"
        if not error.get("message"):
            return "no message"
        return None


@pytest.fixture(scope="module")
def bench():
    with live.Live() as d:
        d.start()
        yield Bench(d)


def rows():
    for op, fields in {**FIELDS, **OPERATOR}.items():
        for field, spec in fields.items():
            yield op, field, *spec


@pytest.mark.parametrize("op,field,required,kind", list(rows()), ids=lambda x: str(x))
def test_b07_every_field_broken_every_way(bench, op, field, required, kind):
    before, wrong = bench.picture(), []
    for name, text in BAD[kind].items():
        inner = INNER.get((kind, name))
        bad = bench.refused(op, raw(bench.good(op), field, text), f"{field}.{inner}" if inner else field)
        if bad and name == "cut":  # of the last field: the text only ends, and no field is at fault
            bad = bench.refused(op, raw(bench.good(op), field, text), None)
        if bad:
            wrong.append(f"{name} {text[:60]!r}: {bad}")
    bad = bench.refused(op, twice(bench.good(op), field), field)
    if bad:
        wrong.append(f"twice: {bad}")
    if required:
        message = bench.good(op)
        message.pop(field)
        bad = bench.refused(op, json.dumps(message).encode(), field)
        if bad:
            wrong.append(f"missing: {bad}")
        bad = bench.refused(op, raw(bench.good(op), field, "null"), field)
        if bad:
            wrong.append(f"null: {bad}")
    assert not wrong, "\n".join(wrong)
    assert bench.picture() == before


ENVELOPE = [  # name, body, op the error speaks of, field
    ("empty message", b"", None, None),
    ("blank", b" ", None, None),
    ("not json", b"hello", None, None),
    ("a number", b"7", None, None),
    ("a list", b"[]", None, None),
    ("null", b"null", None, None),
    ("two values", b'{"v":1,"op":"hello"}{}', None, None),
    ("trailing comma", b'{"v":1,"op":"hello",}', None, None),
    ("a comment", b'{"v":1,/*x*/"op":"hello"}', None, None),
    ("byte order mark", b'\xef\xbb\xbf{"v":1,"op":"hello"}', None, None),
    ("utf-16", '{"v":1,"op":"hello"}'.encode("utf-16"), None, None),
    ("no v", b'{"op":"hello"}', "hello", "v"),
    ("v 2", b'{"v":2,"op":"hello"}', "hello", "v"),
    ("v text", b'{"v":"1","op":"hello"}', "hello", "v"),
    ("v 1.0", b'{"v":1.0,"op":"hello"}', "hello", "v"),
    ("v twice", b'{"v":1,"v":1,"op":"hello"}', None, "v"),
    ("no op", b'{"v":1}', None, "op"),
    ("op number", b'{"v":1,"op":7}', None, "op"),
    ("unknown op", b'{"v":1,"op":"reset"}', None, "op"),
    ("op in capitals", b'{"v":1,"op":"HELLO"}', None, "op"),
    ("op twice", b'{"v":1,"op":"hello","op":"decide"}', None, "op"),
    ("operator's op (A07)", b'{"v":1,"op":"status"}', None, "op"),
    ("operator's op 2", b'{"v":1,"op":"review.resolve","review":"r_1","answer":"resume"}', None, "op"),
    ("unknown field", b'{"v":1,"op":"hello","budget":"1000000"}', "hello", "budget"),
    ("raw bytes", bytes(range(256)), None, None),
]


@pytest.mark.parametrize("name,body,op,field", ENVELOPE, ids=[x[0] for x in ENVELOPE])
def test_envelope(bench, name, body, op, field):
    before = bench.picture()
    reply = bench.send("hello", body)
    assert reply["error"]["code"] == "malformed" and reply["error"]["message"], reply
    if field is not None:
        assert reply["error"]["field"] == field, reply
    if op is not None:
        assert reply["op"] == op, reply
    assert bench.picture() == before


@pytest.mark.parametrize("op", [*FIELDS, *OPERATOR])
def test_an_unknown_field_in_every_op(bench, op):
    before = bench.picture()
    message = {**bench.good(op), "estimte": "0"}
    assert bench.refused(op, json.dumps(message).encode(), "estimte") is None
    assert bench.picture() == before


def test_operator_door_has_no_agent_ops(bench):
    before = bench.picture()
    for op in ("session.open", "decide", "settle", "session.close"):
        reply = json.loads(bench.operator.ask_bytes(json.dumps(bench.good(op)).encode()))
        assert reply["error"]["field"] == "op", reply
    assert bench.picture() == before


NESTED = [("lists", lambda n: "[" * n + "]" * n), ("objects", lambda n: '{"a":' * n + "1" + "}" * n), ("open lists", lambda n: "[" * n)]


@pytest.mark.parametrize("name,make", NESTED, ids=[x[0] for x in NESTED])
@pytest.mark.parametrize("depth", [33, 1000, 400_000])
def test_deep_nesting(bench, name, make, depth):
    text = make(depth)
    if len(text) > 1_000_000:
        text = make(depth // 3)
    before = bench.picture()
    reply = bench.send("decide", raw(bench.good("decide"), "args.x", text))
    assert reply["error"]["code"] == "malformed" and reply["error"]["field"].startswith("args"), reply
    assert bench.picture() == before


def test_depth_32_is_still_fine(bench):
    # the message is level 1, args level 2: 30 more
    reply = bench.send("decide", raw(bench.good("decide"), "args.x", "[" * 30 + "]" * 30))
    assert reply.get("verdict") == "allow", reply


def test_wrong_token_and_unknown_session_look_alike(bench):
    before = bench.picture()
    seen = set()
    for op in ("decide", "settle", "session.state", "session.close", "heartbeat"):
        for change in ({"token": "0" * 64}, {"session": "s_999999"}):
            reply = bench.send(op, json.dumps({**bench.good(op), **change}).encode())
            seen.add(json.dumps(reply["error"], sort_keys=True))
            assert reply["error"]["code"] == "unauthenticated", reply
    assert len(seen) == 1, seen
    assert bench.picture() == before


def test_s9_settle_minus_one_and_settle_twice(bench):
    s = bench.session
    d = s.decide("work", {"s9": True}, money="2")
    before = bench.picture()
    assert s.settle(d["decision"], money="-1")["error"]["field"] == "cost.money"
    assert bench.picture() == before
    first = s.settle(d["decision"], money="0.5")
    assert "error" not in first, first
    after = bench.picture()
    assert s.settle(d["decision"], money="0.25")["error"]["code"] == "replay_conflict"
    assert s.settle(d["decision"], money="0.5") == first
    assert bench.picture() == after


def padded(n: int) -> bytes:
    """A decide of exactly n bytes: only its size is wrong."""
    head = b'{"v":1,"op":"decide","args":{"x":"'
    tail = b'"}}'
    return head + b"x" * (n - len(head) - len(tail)) + tail


def test_one_mib_and_one_byte_gets_an_error(bench):
    before = bench.picture()
    with bench.d.door() as s:
        for n in ((1 << 20) + 1, (1 << 20) + 1000, (1 << 20) + (64 << 10) - 4):
            reply = json.loads(s.ask_bytes(padded(n)))
            assert reply["error"]["code"] == "malformed", (n, reply)
        # the stream lives on
        assert "server" in s.ask({"v": 1, "op": "hello"})
    assert bench.picture() == before


def test_a_full_mib_is_read(bench):
    with bench.d.door() as s:
        reply = json.loads(s.ask_bytes(padded(1 << 20)))
        assert reply["error"]["field"] == "session", reply  # read whole, and then refused for what it lacks


def test_above_the_wire_limit_the_stream_closes(bench):
    before = bench.picture()
    for n in ((1 << 20) + (64 << 10) + 1, 64 << 20):
        with bench.d.door() as s, pytest.raises(OSError):
            s.sock.settimeout(10)
            s.sock.sendall(b"\x01" + struct.pack(">Q", 4 + n) + b"\x80\x00\x00\x01" + b"x" * min(n, 2 << 20))
            s.receive(b"\x80\x00\x00\x01")
    # a length that is all ones must not be believed either
    with bench.d.door() as s, pytest.raises(OSError):
        s.sock.sendall(b"\x01" + b"\xff" * 8 + b"\x80\x00\x00\x01x")
        s.receive(b"\x80\x00\x00\x01")
    assert bench.d.answers()
    assert bench.picture() == before


def test_a_thousand_half_sent_messages(bench):
    """Half a message holds nobody else up, and closing in the middle of one costs the daemon nothing."""
    before, rest = bench.picture(), bench.d.rest_pid
    held = []
    body = json.dumps(bench.good("decide")).encode()
    try:
        for i in range(1000):
            s = bench.d.door()
            s.sock.sendall(b"\x01" + struct.pack(">Q", 4 + len(body)) + b"\x80\x00\x00\x01" + body[: len(body) * (i % 10) // 10])
            if i % 4 == 0 and len(held) < 250:
                held.append(s)  # stays open, half said
            else:
                s.close()
        assert bench.d.answers(), "half-sent messages hold others up"
    finally:
        for s in held:
            s.close()
    assert bench.d.status()["pid"]["rest"] == rest, "the rest was restarted"
    assert bench.picture() == before


def bare(d, data: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        try:
            s.connect(d.agent)
            s.sendall(data)
        except OSError:
            time.sleep(0.01)


def test_random_bytes_on_a_bare_stream(bench):
    """Below SP: noise, wrong handshakes, a right one and then lengths that cannot be. Seeded, so that a failure can be had again."""
    rng, rest, before = random.Random(20), bench.d.rest_pid, bench.picture()
    for i in range(300):
        noise = rng.randbytes(rng.randrange(1, 3000))
        huge = HELLO + b"\x01\x80" + noise[:7]
        short = HELLO + b"".join(b"\x01" + struct.pack(">Q", n) + noise[:n] for n in (0, 1, 3, 4))  # no room for a request id and a body
        bare(bench.d, (noise, HELLO[: i % 6] + noise, b"\x00SP\x00" + noise, huge + noise, short)[i % 5])
    assert bench.d.answers()
    assert bench.d.status()["pid"]["rest"] == rest
    assert bench.picture() == before


def test_a_frame_type_that_does_not_exist(bench):
    """Nine bytes of any peer must not end the judging process: only the stream that sent them closes. (libnanomsg's own REP socket
    aborts here, which is why the door is not made of it.)"""
    before, rest = bench.picture(), bench.d.rest_pid
    for kind in (0, 2, 3, 0x7F, 0xFF):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bad:
            bad.connect(bench.d.agent)
            bad.sendall(HELLO + bytes([kind]) + b"\xff" * 64)
            bad.settimeout(10)
            got = b""
            while part := bad.recv(64):
                got += part
            assert got == HELLO_BACK
    assert bench.d.status()["pid"]["rest"] == rest
    assert bench.picture() == before


def test_random_bytes_as_bodies(bench):
    rng, before = random.Random(21), bench.picture()
    good = json.dumps(bench.good("decide")).encode()
    for _ in range(1500):
        body = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(body))
            how = rng.randrange(3)
            if how == 0:
                body[at] = rng.randrange(256)
            elif how == 1:
                del body[at]
            else:
                body.insert(at, rng.choice(b'{}[]",:\\0\x00\xff-e'))
        reply = json.loads(bench.session.stream.ask_bytes(bytes(body)))
        assert "error" in reply or reply["verdict"] in ("allow", "deny", "review"), reply
        if "error" not in reply:
            before = bench.picture()  # the flip hit an argument: another, honest call
    assert bench.picture() == before


def test_counted_and_never_an_entry_each(bench):
    """U14: a stranger must not fill the log."""
    status = bench.d.status()
    for _ in range(50):
        bench.send("hello", b"nonsense")
    later = bench.d.status()
    assert later["counters"]["malformed"] == status["counters"]["malformed"] + 50
    assert later["log"]["seq"] == status["log"]["seq"]
