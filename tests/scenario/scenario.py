"""One scenario over the wire: reads a file of this folder and plays its steps on a live pawld. README.md says what is in a file."""
from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live import Live, Session, Stream, SLOW  # noqa: E402
from signer import Signer  # noqa: E402
from sp import Refused  # noqa: E402

PAIR = re.compile(r"\s*([a-z_]+): (?:'((?:[^']|'')*)'|([^,'{}\[\]]*?))\s*(?:,|$)")


def read_flow(text: str, where: str) -> dict[str, str]:
    """{key: value, ...}: values plain or in single quotes; anything else is an error."""
    inner, at, out = text.strip(), 1, {}
    assert inner[0] == "{" and inner[-1] == "}", where
    inner = inner[:-1]
    while at < len(inner):
        m = PAIR.match(inner, at)
        assert m and m.group(1) not in out, f"{where}: cannot be read from column {at}: {inner[at:]}"
        out[m.group(1)] = m.group(2).replace("''", "'") if m.group(2) is not None else m.group(3)
        at = m.end()
    return out


def read_file(path: pathlib.Path) -> dict[str, Any]:
    """The narrow YAML of scenarios. The C runner reads the same with libyaml: what the two disagree about fails in one of them."""
    out: dict[str, Any] = {}
    key = ""
    lines = path.read_text().splitlines()
    assert lines[-1] == "...", path
    for n, line in enumerate(lines[:-1], 1):
        where = f"{path.name}:{n}"
        if not line or line[0] != " ":
            key, _, value = line.partition(": ") if ": " in line else (line.rstrip(":"), "", "")
            assert key not in out and ": " not in value, where
            out[key] = [] if key == "steps" else "" if value == "|" else value
        elif key == "steps":
            if not line.lstrip().startswith("#"):
                assert line.startswith("  - {"), where
                out[key].append(read_flow(line[4:], where))
        else:
            assert line.startswith("  "), where
            out[key] += line[2:] + "\n"
    return out


def seconds(span: str) -> float:
    assert re.fullmatch(r"[0-9]s", span), "real time passes here: whole seconds, and few"
    return float(span[:-1])


class Player:
    def __init__(self, path: pathlib.Path):
        self.script = read_file(path)
        self.name, self.step = path.name, 0
        self.live = Live(self.policy("policy"))
        self.live.options = ("--no-watch",)
        self.anna = Signer("anna").enrol(self.live)
        self.sessions: dict[str, Session] = {}
        self.here: Session | None = None
        self.names: dict[str, dict[str, Any]] = {}  # what `as` named: reply and session
        self.unsettled: list[tuple[Session, str]] = []
        self.clients: dict[str, str] = {}

    def policy(self, key: str) -> str:
        return f"pawl: 1\nname: scenario\n{self.script[key]}...\n"

    def fail(self, why: Any) -> None:
        raise AssertionError(f"{self.name}, step {self.step} {self.script['steps'][self.step - 1]}: {why}")

    def refused(self, s: dict[str, str], reply: dict[str, Any]) -> bool:
        code = reply.get("error", {}).get("code", "")
        if code != s.get("refuse", ""):
            self.fail(f"refused with {code!r}: {reply}")
        return bool(code)

    def play(self) -> None:
        with self.live:
            self.live.start()
            for self.step, s in enumerate(self.script["steps"], 1):
                getattr(self, "do_" + next(iter(s)))(s)
            self.live.stop()
            done = self.live.verify()
            if done.returncode != 10:
                self.fail(f"the log: {done.returncode} {done.stdout} {done.stderr}")
            status, said = self.live.replay()
            if status != 0:
                self.fail(f"judged again: {said}")

    # ---- sessions
    def do_open(self, s: dict[str, str]) -> None:
        more: dict[str, Any] = {}
        if "parent" in s:
            more.update(parent=self.sessions[s["parent"]].id, parent_token=self.sessions[s["parent"]].token)
        if "money" in s:
            more["limits"] = {"money": s["money"]}
        if "labels" in s:
            more["labels"] = dict([s["labels"].split("=")])
        try:
            self.sessions[s["open"]] = self.here = self.live.session(**more)
            self.refused(s, {})
        except Refused as e:
            self.refused(s, e.args[0])

    def do_use(self, s: dict[str, str]) -> None:
        self.here = self.sessions[s["use"]]

    def do_close(self, s: dict[str, str]) -> None:
        self.refused(s, self.sessions[s["close"]].close())

    # ---- ask and claim
    def message(self, s: dict[str, str]) -> dict[str, Any]:
        more: dict[str, Any] = {"kind": s.get("kind", "tool")}
        if "call" in s:
            more["call"] = s["call"]
        if "client" in s:
            more["client"] = self.clients.setdefault(s["client"], os.urandom(16).hex())
        if "wait" in s:
            more["wait"] = s["wait"]
        if "claim" in s:
            more.update(op="claim", review=self.names[s["claim"]]["reply"]["review"])
        return self.here.decide_message(s.get("ask") or s["tool"], json.loads(s.get("args", "{}")), s.get("money"), **more)

    def do_claim(self, s: dict[str, str]) -> None:
        self.do_ask(s)

    def do_ask(self, s: dict[str, str]) -> None:
        if "at_once" in s:
            self.at_once(s)
            return
        for _ in range(int(s.get("times", "1"))):
            reply = self.here.stream.ask(self.message(s))
            if self.refused(s, reply):
                return
            self.keep(s, reply)
            self.check(s, reply)

    def at_once(self, s: dict[str, str]) -> None:
        """Each on a stream of its own, all sent before the first answer is read."""
        streams = [self.live.door() for _ in range(int(s["at_once"]))]
        sent = [(x, x.send(json.dumps(self.message(s)).encode())) for x in streams]
        replies = [json.loads(x.receive(rid)) for x, rid in sent]
        for x in streams:
            x.close()
        got = {v: sum(r.get("verdict") == v for r in replies) for v in ("allow", "review", "deny")}
        if got != {v: int(s.get(v, "0")) for v in got}:
            self.fail(got)
        for r in replies:
            self.keep(s, r)

    def keep(self, s: dict[str, str], reply: dict[str, Any]) -> None:
        if reply["verdict"] == "allow" and (self.here, reply["decision"]) not in self.unsettled:
            self.unsettled.append((self.here, reply["decision"]))
        if "as" in s and (s["as"] not in self.names or self.names[s["as"]]["reply"] != reply):
            self.names[s["as"]] = {"session": self.here, "reply": reply}

    def check(self, s: dict[str, str], reply: dict[str, Any]) -> None:
        would = reply.get("would")
        reason = would["reason"] if would else reply["reason"]
        if (would["verdict"] if would else None) != s.get("would"):
            self.fail(reply)
        got = {"want": reply["verdict"], **{k: reason.get(k) for k in ("code", "rule", "counter", "limit")}}
        if any(k in s and s[k] != v for k, v in got.items()):
            self.fail(reply)
        if "review" in s and reply["review"] != self.names[s["review"]]["reply"]["review"]:
            self.fail(reply)
        if (reply["verdict"] == "review") != bool(reply["review"]) or reply["permit"] is not None:
            self.fail(reply)
        if "left" in s:
            budget, _, amount = s["left"].partition("=")
            if reply["remaining"][budget]["remaining"] != amount:
                self.fail(reply["remaining"])

    # ---- settle
    def do_settle(self, s: dict[str, str]) -> None:
        if s["settle"] == "all":
            while self.unsettled:
                self.settle_one(s, *self.unsettled.pop())
            return
        named = self.names[s["settle"]]
        self.settle_one(s, named["session"], named["reply"]["decision"])
        self.unsettled = [u for u in self.unsettled if u[1] != named["reply"]["decision"]]

    def settle_one(self, s: dict[str, str], session: Session, decision: str) -> None:
        more: dict[str, Any] = {}
        if "result" in s:
            more["result"] = {"sha256": hashlib.sha256(s["result"].encode()).hexdigest(), "bytes": len(s["result"])}
        if "error" in s:
            more["error"] = {"kind": "e", "sha256": hashlib.sha256(s["error"].encode()).hexdigest()}
        self.refused(s, session.settle(decision, s.get("outcome", "ok"), s.get("money"), **more))

    # ---- time, people, ends
    def do_pass(self, s: dict[str, str]) -> None:
        time.sleep(seconds(s["pass"]) + 0.1)

    def do_operator(self, s: dict[str, str]) -> None:
        more: dict[str, Any] = {"reason": "asked"}
        if "tree" in s:
            more["tree"] = s["tree"] == "true"
        if s["operator"] == "reset":
            reply = self.anna.order(self.live, "breaker.reset", breaker=s["breaker"], **more)
        elif s["operator"] == "end":
            reply = self.anna.order(self.live, "session.abort", session=self.sessions[s["session"]].id, **more)
        else:
            reply = self.anna.order(self.live, "review.resolve", review=self.names[s["review"]]["reply"]["review"], action=s["operator"], **more)
        self.refused(s, reply)

    def do_restart(self, s: dict[str, str]) -> None:
        self.live.kill()
        if "policy" in s:
            self.live.write_policy(self.policy(s["policy"]))
        self.live.start()
        for session in self.sessions.values():
            session.stream.close()
            session.stream = self.live.door()

    def do_reload(self, s: dict[str, str]) -> None:
        self.live.write_policy(self.policy(s["reload"]))
        reply = self.anna.order(self.live, "policy.reload")
        if reply.get("loaded") is not (s.get("loaded") != "false"):
            self.fail(reply)

    def do_agent(self, s: dict[str, str]) -> None:
        """Everything right but the door."""
        with Stream(self.live.operator, 10 * SLOW) as o:
            nonce = o.ask({"v": 1, "op": "nonce"})["nonce"]
        order = self.anna.request(nonce, s["agent"], session=self.here.id, token=self.here.token)
        before = self.live.seq()
        self.refused(s, self.here.stream.ask(order))
        if self.live.seq() != before:
            self.fail("it wrote an entry")

    # ---- what is expected
    def do_expect(self, s: dict[str, str]) -> None:
        got = getattr(self, "see_" + s["expect"])(s)
        want = s.get("state") or s.get("is") or s.get("n") or s.get("by") or ""
        if got != want:
            self.fail(f"it is {got!r}")

    def see_card(self, s: dict[str, str]) -> str:
        return self.live.ask_operator("review.show", review=self.names[s["review"]]["reply"]["review"])["state"]

    def see_session(self, s: dict[str, str]) -> str:
        rows = self.live.ask_operator("session.list", limit=1000)["sessions"]
        return next(r["ended"] or "live" for r in rows if r["session"] == self.sessions[s["session"]].id)

    def see_breaker(self, s: dict[str, str]) -> str:
        rows = [b for b in self.here.state()["breakers"] if b["breaker"] == s["breaker"]]
        return next((b["state"] for b in rows if str(b.get("would", False)).lower() == s.get("would", "false")), "closed")

    def see_left(self, s: dict[str, str]) -> str:
        return self.here.state()["remaining"][s["budget"]]["remaining"]

    def see_over(self, s: dict[str, str]) -> str:
        return self.here.state()["remaining"][s["budget"]].get("over", "0")

    def see_mode(self, s: dict[str, str]) -> str:
        told = {self.live.status()["mode"], self.live.session().opened["mode"], self.live.ask_operator("review.list")["mode"]}
        with self.live.door() as door:
            told.add(door.ask({"v": 1, "op": "hello"})["mode"])
        return " ".join(sorted(told))

    def see_waiting(self, s: dict[str, str]) -> str:
        listed = [r["review"] for r in self.live.ask_operator("review.list", session=self.here.id)["reviews"]]
        told = [r["review"] for r in self.here.state()["reviews"] if r["state"] == "pending"]
        if sorted(listed) != sorted(told):
            self.fail(f"the operator sees {listed}, the agent {told}")
        return str(len(listed))

    def see_denied(self, s: dict[str, str]) -> str:
        rows = [d for d in self.here.state()["denials"] if d["tool"] == s["tool"]]
        return next((d["rule"] for d in rows if str(d.get("would", False)).lower() == s.get("would", "false")), "")

    def see_entries(self, s: dict[str, str]) -> str:
        return str(sum(e["body"]["kind"] == s["kind"] for e in self.live.entries()))
