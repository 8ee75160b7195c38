"""A scripted pawld: speaks nanomsg REP over ipc:// as docs/wire.md has it, and misbehaves on command.

For what the real daemon will not do when asked: wrong spellings, garbage, silence, replies to others, sudden death.
It judges nothing; its own answers say allow. Threads only, no client code shared with the package under test.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

HELLO_REQ, HELLO_REP = b"\x00SP\x00\x00\x30\x00\x00", b"\x00SP\x00\x00\x31\x00\x00"
TOKEN = "ab" * 32


class Hang:
    """No reply; the stream stays open."""


class Hangup:
    """The stream closes in place of a reply."""


class Late:
    def __init__(self, seconds: float, reply: Any) -> None:
        self.seconds, self.reply = seconds, reply


class Stale:
    """First a reply with another request's number, then the real one (or none)."""

    def __init__(self, first: Any, then: Any) -> None:
        self.first, self.then = first, then


class Raw:
    """These bytes on the stream, in no frame."""

    def __init__(self, data: bytes) -> None:
        self.data = data


class FakeDaemon:
    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        self.streams_of: list[int] = []  # which stream each request came on
        self.overlaps = 0  # requests that came on a stream before its last one was answered
        self.streams = 0
        self.peak = 0  # streams at once
        self.script: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.hello = HELLO_REP
        self.lease = "60s"
        self._conns: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._next = 10

    # -- life

    def start(self) -> FakeDaemon:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._listener.bind(self.path)
        self._listener.listen(10)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        return self

    def kill(self) -> None:
        """As SIGKILL has it: every stream drops, the socket file stays behind."""
        listener, self._listener = self._listener, None
        if listener:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self.lock:
            conns = list(self._conns)
        for c in conns:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self) -> FakeDaemon:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    # -- what tests read

    def ops(self, op: str) -> list[dict[str, Any]]:
        with self.lock:
            return [r for r in self.requests if r.get("op") == op]

    def settles(self, n: int = 1, seconds: float = 2.0) -> list[dict[str, Any]]:
        """At least n settles, waited for: a generator's or a cancelled task's comes a moment later."""
        end = time.monotonic() + seconds
        while len(self.ops("settle")) < n and time.monotonic() < end:
            time.sleep(0.005)
        return self.ops("settle")

    # -- answers

    def on(self, op: str, handler: Any) -> None:
        """handler: a function of the request, or the reply itself."""
        self.script[op] = handler if callable(handler) and not isinstance(handler, type) else (lambda rq: handler)

    def number(self) -> int:
        with self.lock:
            self._next += 1
            return self._next

    def allow(self, rq: dict[str, Any], **over: Any) -> dict[str, Any]:
        n = self.number()
        return {
            "v": 1,
            "op": rq["op"],
            "call": rq["call"],
            "verdict": "allow",
            "decision": f"d_{n}",
            "review": None,
            "permit": None,
            "retry_after": None,
            "reason": {"code": "ok", "rule": "r", "message": "", "counter": None, "limit": None, "unit": None},
            "remaining": {},
            "lease_until": "2026-11-29T18:41:10.123456789Z",
            "log": {"seq": n, "entry": "x"},
        } | over

    def deny(self, rq: dict[str, Any], code: str = "rule", **reason: Any) -> dict[str, Any]:
        return self.allow(
            rq,
            verdict="deny",
            lease_until=None,
            reason={"code": code, "rule": "r", "message": f"no: {code}", "counter": None, "limit": None, "unit": None}
            | reason,
        )

    def review(self, rq: dict[str, Any], state: str = "pending", review: str = "r_7", **over: Any) -> dict[str, Any]:
        return (
            self.deny(rq, "rule")
            | {
                "verdict": "review",
                "review": review,
                "expires": "2026-11-29T18:51:10.000000000Z",
                "review_state": state,
            }
            | over
        )

    def waited(self, rq: dict[str, Any], state: str = "pending", **over: Any) -> dict[str, Any]:
        return {
            "v": 1,
            "op": "review.wait",
            "review": rq["review"],
            "state": state,
            "expires": None,
            "operator": None if state in ("pending", "timeout", "closed") else "anna",
            "reason": None if state in ("pending", "timeout", "closed") else "because",
        } | over

    def answer(self, rq: dict[str, Any]) -> Any:
        op = rq.get("op")
        if op in self.script:
            return self.script[op](rq)
        if op == "session.open":
            return {
                "v": 1,
                "op": op,
                "session": f"s_{self.number()}",
                "token": TOKEN,
                "expires": "2026-11-29T19:41:10.000000000Z",
                "lease": self.lease,
                "mode": "enforce",
                "log": {"seq": 1},
            }
        if op in ("decide", "claim"):
            return self.allow(rq)
        if op == "review.wait":
            return self.waited(rq)
        if op == "settle":
            return {
                "v": 1,
                "op": op,
                "decision": rq["decision"],
                "outcome": rq["outcome"],
                "charged": {"money": "0"},
                "returned": {"money": "0"},
                "late": False,
                "remaining": {},
                "log": {"seq": self.number(), "entry": "x"},
            }
        return {"v": 1, "op": op, "session": rq.get("session"), "expires": "2026-11-29T19:41:10.000000000Z"}

    # -- streams

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.streams += 1
                number = self.streams
                self._conns.add(conn)
                self.peak = max(self.peak, len(self._conns))
            threading.Thread(target=self._serve, args=(conn, number), daemon=True).start()

    def _serve(self, conn: socket.socket, number: int) -> None:
        try:
            conn.sendall(self.hello)
            if _exactly(conn, 8) == HELLO_REQ:
                while self._one(conn, number):
                    pass
        except (OSError, EOFError):
            pass
        finally:
            with self.lock:
                self._conns.discard(conn)
            conn.close()

    def _one(self, conn: socket.socket, number: int) -> bool:
        kind, n = struct.unpack(">BQ", _exactly(conn, 9))
        payload = _exactly(conn, n)
        assert kind == 1 and payload[0] & 0x80
        rq = json.loads(payload[4:])
        with self.lock:
            self.requests.append(rq)
            self.streams_of.append(number)
        got = self.answer(rq)
        if isinstance(got, Late):
            time.sleep(got.seconds)
            got = got.reply
        if isinstance(got, Stale):
            other = bytes([0x80]) + bytes(b ^ 0x55 for b in payload[1:4])
            conn.sendall(_frame(other, got.first))
            got = got.then
        if isinstance(got, Raw):
            conn.sendall(got.data)
            return True
        if got is Hangup:
            return False
        if got is not Hang:
            conn.setblocking(False)
            try:
                if conn.recv(1, socket.MSG_PEEK):
                    self.overlaps += 1
            except BlockingIOError:
                pass
            conn.setblocking(True)
            conn.sendall(_frame(payload[:4], got))
        return True


def _frame(head: bytes, reply: Any) -> bytes:
    body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return b"\x01" + struct.pack(">Q", len(body) + 4) + head + body


def _exactly(conn: socket.socket, n: int) -> bytes:
    data = b""
    while len(data) < n:
        part = conn.recv(n - len(data))
        if not part:
            raise EOFError
        data += part
    return data
