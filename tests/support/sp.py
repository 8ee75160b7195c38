"""A small client for tests: SP (nanomsg's REQ side) over AF_UNIX, straight from docs/wire.md.

Written apart from hooks/python on purpose: the two check each other. One Stream is one connection with one request in flight.
Nothing here retries by itself: a test must see each failure.
"""
from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Any

HELLO = b"\x00SP\x00\x00\x30\x00\x00"
HELLO_BACK = b"\x00SP\x00\x00\x31\x00\x00"


class Gone(OSError):
    """The stream closed, or no answer came in time."""


class Stream:
    def __init__(self, path: str, timeout: float = 10.0):
        self.path, self.timeout = path, timeout
        self.next_id = int.from_bytes(os.urandom(3), "big")
        end = time.monotonic() + timeout
        while True:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(timeout)
            try:
                self.sock.connect(path)
                break
            except BlockingIOError:  # the listen backlog is full: later
                self.sock.close()
                if time.monotonic() > end:
                    raise Gone("the door's backlog stayed full") from None
                time.sleep(0.005)
            except OSError:
                self.sock.close()
                raise
        try:
            self.sock.sendall(HELLO)
            if self.read(8) != HELLO_BACK:
                raise Gone("not an SP REP peer")
        except BaseException:
            self.sock.close()
            raise

    def read(self, n: int) -> bytes:
        got = b""
        while len(got) < n:
            try:
                part = self.sock.recv(n - len(got))
            except TimeoutError:
                raise Gone("no answer in time") from None
            if not part:
                raise Gone("closed")
            got += part
        return got

    def send(self, body: bytes) -> bytes:
        """One framed request; returns its four id bytes."""
        self.next_id = (self.next_id + 1) & 0x7FFFFFFF
        rid = struct.pack(">I", self.next_id | 0x80000000)
        self.sock.sendall(b"\x01" + struct.pack(">Q", 4 + len(body)) + rid + body)
        return rid

    def receive(self, rid: bytes) -> bytes:
        while True:
            kind, n = struct.unpack(">BQ", self.read(9))
            if kind != 1 or n < 4 or n > 2 << 20:
                raise Gone(f"bad frame: {kind} {n}")
            data = self.read(n)
            if data[:4] == rid:
                return data[4:]

    def ask_bytes(self, body: bytes) -> bytes:
        return self.receive(self.send(body))

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        return json.loads(self.ask_bytes(json.dumps(message).encode()))

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """An open session with the boring fields filled in. The caller owns the stream."""

    def __init__(self, stream: Stream, **more: Any):
        self.stream = stream
        self.client = os.urandom(16).hex()
        self.calls = 0
        self.opened = stream.ask({"v": 1, "op": "session.open", "agent": "local", **more})
        if "error" in self.opened:
            raise Refused(self.opened)
        self.id, self.token = self.opened["session"], self.opened["token"]

    def message(self, op: str, **more: Any) -> dict[str, Any]:
        return {"v": 1, "op": op, "session": self.id, "token": self.token, **more}

    def decide_message(self, tool: str, args: dict[str, Any] | None = None, money: str | None = None, **more: Any) -> dict[str, Any]:
        self.calls += 1
        m = self.message("decide", client=self.client, call=f"c-{self.calls}", kind="tool", tool=tool, args=args or {})
        if money is not None:
            m["estimate"] = {"money": money}
        m.update(more)
        return m

    def decide(self, tool: str, args: dict[str, Any] | None = None, money: str | None = None, **more: Any) -> dict[str, Any]:
        return self.stream.ask(self.decide_message(tool, args, money, **more))

    def settle(self, decision: str, outcome: str = "ok", money: str | None = None, **more: Any) -> dict[str, Any]:
        m = self.message("settle", decision=decision, outcome=outcome, **more)
        if money is not None:
            m["cost"] = {"money": money}
        return self.stream.ask(m)

    def state(self) -> dict[str, Any]:
        return self.stream.ask(self.message("session.state"))

    def close(self) -> dict[str, Any]:
        return self.stream.ask(self.message("session.close"))


class Refused(Exception):
    """session.open got an error; args[0] is the whole reply."""
