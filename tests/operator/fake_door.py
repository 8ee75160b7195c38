"""A scripted operator door: docs/reviews.md from the other side, written apart from the daemon on purpose.

It keeps cards and nonces, checks signatures, and can be told to misbehave (`script`). It judges nothing.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

HELLO, HELLO_BACK = b"\x00SP\x00\x00\x30\x00\x00", b"\x00SP\x00\x00\x31\x00\x00"

# ---- Ed25519, the verifying half (RFC 8032), slow and plain
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def _add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e, f = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    g, h = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P


def _times(n, point):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = _add(out, point)
        point = _add(point, point)
        n >>= 1
    return out


def _point(raw: bytes):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def verify(public: bytes, text: bytes, signature: bytes) -> bool:
    a, r, s = _point(public), _point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + text).digest(), "little") % L
    left, right = _times(s, BASE), _add(r, _times(k, a))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


def canonical(message: dict[str, Any]) -> bytes:
    """Enough of RFC 8785 for what operators send: texts, bools and small integers under ASCII names."""
    return json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def error(op: str, code: str, message: str, field: str | None = None) -> dict[str, Any]:
    return {"v": 1, "op": op, "error": {"code": code, "field": field, "message": message}}


class FakeDoor:
    FIRST = 50

    def __init__(self, folder: pathlib.Path) -> None:
        self.dir = folder
        self.socket = str(folder / "run" / "operator" / "operator.sock")
        self.cards: dict[str, dict[str, Any]] = {}
        self.nonces: set[str] = set()
        self.orders: list[dict[str, Any]] = []  # that were signed well
        self.requests: list[dict[str, Any]] = []
        self.keys: dict[str, bytes] = {}
        self.script: dict[str, Callable[[dict[str, Any]], Any]] = {}
        self.seq = 100
        self.page = 1000
        os.makedirs(os.path.dirname(self.socket), mode=0o700)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.socket)
        self.listener.listen(10)
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    # ---- what a test does
    def hold(self, tool: str = "held", args: Any = None, agent: str = "local", **more: Any) -> str:
        review = f"r_{self.FIRST + len(self.cards)}"
        self.cards[review] = {
            "review": review, "session": "s_12", "agent": agent, "tool": tool, "state": "pending",
            "opened": "2026-11-29T18:40:10.000000000Z", "expires": "2026-11-29T18:50:22.000000000Z",
            "asks": [{"code": "review_required", "rule": "ask"}], "reason": {"message": "a person must agree"},
            "args": canonical(args or {}).decode(errors="ignore")[: 64 << 10], "args_bytes": len(canonical(args or {})), "args_mac": "ab" * 32, "money": "0",
            "tokens": 0, "joined": 1, "operator": None, "operator_reason": None, "before": [], **more,
        }
        return review

    def state(self, review: str) -> str:
        return self.cards[review]["state"]

    def reload_operators(self) -> None:
        """What pawld does at HUP."""
        self.keys = {}
        for file in (self.dir / "operators").glob("*.vkey"):
            self.keys[file.stem] = base64.b64decode(file.read_text().strip().split("+", 2)[2])[1:]

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept(); after close() alone that thread could take the next door's descriptor
        self.thread.join(10)
        self.listener.close()
        os.unlink(self.socket)

    # ---- ops
    def answer(self, m: dict[str, Any]) -> Any:
        op = m["op"]
        self.requests.append(m)
        if op in self.script:
            return self.script[op](m)
        if op == "status":
            return {"v": 1, "op": op, "now": "2026-11-29T18:41:10.000000000Z"}
        if op == "nonce":
            self.nonces.add(nonce := os.urandom(32).hex())
            return {"v": 1, "op": op, "nonce": nonce, "expires": "2026-11-29T18:42:10.000000000Z"}
        if op == "review.list":
            after = int(m["after"][2:]) if m.get("after") else 0
            rows = [c for c in self.cards.values() if (m.get("all") or c["state"] == "pending") and int(c["review"][2:]) > after]
            n = min(m.get("limit", 100), self.page)
            rows = [{**c, "args": None} for c in rows]
            return {"v": 1, "op": op, "reviews": rows[:n], "more": len(rows) > n}
        if op == "review.show":
            card = self.cards.get(m["review"])
            return {"v": 1, "op": op, **card} if card else error(op, "malformed", "no such review", "review")
        return self.order(op, m)

    def order(self, op: str, m: dict[str, Any]) -> Any:
        signed = {k: v for k, v in m.items() if k != "signature"}
        public = self.keys.get(m["operator"])
        fresh = m["nonce"] in self.nonces
        self.nonces.discard(m["nonce"])
        if not fresh or not public or not verify(public, b"pawl-operator/v1\n" + canonical(signed), bytes.fromhex(m["signature"])):
            return error(op, "unauthenticated", "not an operator's signature")
        self.seq += 1
        log = {"seq": self.seq}
        if op == "review.resolve":
            card = self.cards.get(m["review"])
            if not card:
                return error(op, "malformed", "no such review", "review")
            if card["state"] != "pending":
                return error(op, "replay_conflict", f"{m['review']} is answered already")
            state = {"resume": "resumed", "skip": "skipped", "abort": "aborted"}[m["action"]]
            card.update(state=state, operator=m["operator"], operator_reason=m["reason"])
            self.orders.append(m)
            return {"v": 1, "op": op, "review": m["review"], "state": state, "log": log}
        self.orders.append(m)
        if op == "session.abort":
            return {"v": 1, "op": op, "session": m["session"], "log": log}
        if op == "breaker.reset":
            return {"v": 1, "op": op, "breaker": m["breaker"], "log": log}
        if op == "policy.reload":
            return {"v": 1, "op": op, "loaded": True, "problems": [], "log": log}
        return error(op, "malformed", "unknown op", "op")

    # ---- the wire
    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        def read(n: int) -> bytes:
            got = b""
            while len(got) < n:
                part = peer.recv(n - len(got))
                if not part:
                    raise ConnectionError
                got += part
            return got

        try:
            with peer:
                peer.sendall(HELLO_BACK)
                assert read(8) == HELLO
                while True:
                    _, n = struct.unpack(">BQ", read(9))
                    body = read(n)
                    reply = self.answer(json.loads(body[4:]))
                    if not isinstance(reply, bytes):
                        reply = json.dumps(reply, ensure_ascii=False).encode()
                    peer.sendall(b"\x01" + struct.pack(">Q", 4 + len(reply)) + body[:4] + reply)
        except (ConnectionError, OSError):
            pass
