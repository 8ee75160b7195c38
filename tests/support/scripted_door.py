"""A scripted watch door (docs/watch.md): SOCK_SEQPACKET, one JSON object a packet. It watches nothing; it answers as told and keeps what came.

For tests of `pawl run` alone: refusals, garbage, a pawld that goes away. What a real one does is tested on a real one.
"""
from __future__ import annotations

import array
import json
import os
import socket
import threading
import time
from typing import Any

TOKEN = "ab" * 32


class Hangup:
    """The connection is closed in place of an answer."""


class WatchDoor:
    def __init__(self, path: str, **launch: Any) -> None:
        self.path = path
        self.launch = {"hide": [], "writes_under": None, "agent_socket": path.replace("watch.sock", "agent.sock")} | launch
        self.watch: dict[str, Any] = {"state": "on", "tier": "B", "held": [], "missing": [], "message": ""}
        self.end: dict[str, Any] = {"why": "ended", "measured": 0, "limit": 0, "killed": 0}
        self.script: dict[str, Any] = {}  # op -> the answer: an object, bytes, Hangup, or a function of the request
        self.turn_away: bytes | None = None  # said to whoever connects, who is heard no word of, and closed
        self.turn_away_after = 0.0
        self.requests: list[dict[str, Any]] = []
        self.pids: list[int] = []  # of the held children
        self.conns: list[socket.socket] = []
        self.listener: socket.socket | None = None
        self.agent: socket.socket | None = None
        self.lock = threading.Lock()

    def start(self) -> WatchDoor:
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        agent = self.launch["agent_socket"]  # somebody listens; nobody answers
        if not os.path.exists(agent):
            self.agent = socket.socket(socket.AF_UNIX)
            self.agent.bind(agent)
            os.chmod(agent, 0o666)
            self.agent.listen(8)
        self.listener.listen(8)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()
        return self

    def stop(self) -> None:
        listener, self.listener = self.listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self.lock:
            conns, self.conns = self.conns, []
        for c in conns:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self) -> WatchDoor:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ops(self) -> list[str]:
        with self.lock:
            return [r["op"] for r in self.requests]

    def of(self, op: str, n: int = 1, seconds: float = 10.0) -> list[dict[str, Any]]:
        """At least n requests of op, waited for."""
        end = time.monotonic() + seconds
        while True:
            with self.lock:
                got = [r for r in self.requests if r["op"] == op]
            if len(got) >= n:
                return got
            assert time.monotonic() < end, f"{len(got)} of {n} {op}: {self.ops()}"
            time.sleep(0.01)

    def tell(self, message: dict[str, Any]) -> None:
        """Unasked, to everybody connected."""
        with self.lock:
            conns = list(self.conns)
        for c in conns:
            c.send(json.dumps(message).encode())

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                c, _ = listener.accept()
            except OSError:
                return
            if self.turn_away is not None:
                time.sleep(self.turn_away_after)
                c.send(self.turn_away)
                c.close()
                continue
            with self.lock:
                self.conns.append(c)
            threading.Thread(target=self._serve, args=(c,), daemon=True).start()

    def _serve(self, c: socket.socket) -> None:
        try:
            while True:
                body, control, _, _ = c.recvmsg(1 << 17, 4096)
                if not body:
                    return
                for _, _, data in control:
                    for fd in array.array("i", data):
                        with open(f"/proc/self/fdinfo/{fd}") as f:
                            self.pids += [int(x.split()[1]) for x in f if x.startswith("Pid:")]
                        os.close(fd)
                rq = json.loads(body)
                with self.lock:
                    self.requests.append(rq)
                for answer in self.answers(rq):
                    if answer is Hangup:
                        c.shutdown(socket.SHUT_RDWR)
                        return
                    c.send(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        except OSError:
            pass
        finally:
            with self.lock:
                if c in self.conns:
                    self.conns.remove(c)
            c.close()

    def answers(self, rq: dict[str, Any]) -> list[Any]:
        op = rq["op"]
        scripted = self.script.get(op)
        if scripted is not None:
            got = scripted(rq) if callable(scripted) and scripted is not Hangup else scripted
            return got if isinstance(got, list) else [got]
        if op == "run":
            return [self.run()]
        if op == "exited":
            return [{"v": 1, "op": op, "session": rq["session"]}, self.ended()]
        return [{"v": 1, "op": op, "session": rq.get("session")}]

    def run(self, **over: Any) -> dict[str, Any]:
        return {"v": 1, "op": "run", "session": "s_5", "token": TOKEN, "log": {"seq": 7}, "watch": self.watch, "launch": self.launch} | over

    def ended(self, **over: Any) -> dict[str, Any]:
        return {"v": 1, "op": "ended", "session": "s_5"} | self.end | over
