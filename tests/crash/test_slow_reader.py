"""A peer that asks and does not read: what its socket does not take is kept, and every answer arrives whole once it reads."""
from __future__ import annotations

import json
import socket
import struct
import time

from live import Live

HELLO_REQ, HELLO_REP = b"\0SP\0\0\x30\0\0", b"\0SP\0\0\x31\0\0"
ASKED = 1500  # some 1.3 MB of answers: more than a socket holds, less than pawld keeps


def take(s: socket.socket, n: int) -> bytes:
    got = b""
    while len(got) < n:
        part = s.recv(n - len(got))
        assert part, "the stream ended within an answer"
        got += part
    return got


def test_answers_in_pieces() -> None:
    with Live() as live, socket.socket(socket.AF_UNIX) as s:
        live.start()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(20)
        s.connect(live.agent)
        s.sendall(HELLO_REQ)
        assert take(s, 8) == HELLO_REP
        body = b'{"v":1,"op":"hello"}'
        for i in range(ASKED):
            s.sendall(b"\1" + struct.pack(">QI", len(body) + 4, 0x80000000 | i) + body)
        time.sleep(0.3)
        seen = []
        for _ in range(ASKED):
            kind, n, rid = struct.unpack(">BQI", take(s, 13))
            assert kind == 1
            assert "server" in json.loads(take(s, n - 4))
            seen.append(rid & 0x7FFFFFFF)
        assert sorted(seen) == list(range(ASKED))
        assert live.answers()
