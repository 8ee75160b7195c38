"""Shadow mode on a live pawld: the mode is edited in the file while pawld is down, killed or asked to reload; every door and command says
which mode it is (P11), and nobody but the file's owner and an operator switches it."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

import live
from live import Live, until
from signer import Signer

RULES = """pawl: 1
name: rollout
default: deny
%srules:
  - {id: work, allow: [work, post]}
  - {id: never, deny: [wipe]}
  - {id: secret, deny: [post], when: {args.to: {is: eve}}, sticky: session}
  - {id: ask, review: [held]}
budgets:
  run: {per: session, limit: 1 USD}
sessions: {lease: 1h}
limits: {decide: 100000/s, burst: 100000}
...
"""
SHADOW, ENFORCE = RULES % "mode: shadow\n", RULES % ""
LOOSER = "loosened: mode enforce -> shadow: nothing is refused any more"
TIGHTER = "tightened: mode shadow -> enforce: what shadow mode remembered is cleared"


def switch(d: Live, text: str, how: str) -> None:
    d.write_policy(text)
    if how == "hup":
        old = d.status()["policy"]["hash"]
        os.kill(d.watcher_pid, signal.SIGHUP)
        until("the new policy is in force", lambda: d.status()["policy"]["hash"] != old)
    else:
        (d.stop if how == "stop" else d.kill)()
        d.start()


def judged_again(d: Live) -> None:
    status, said = d.replay()
    assert status == 0 and said["differ"] == said["skipped"] == 0 and said["equal"] + said["given"] == said["entries"], said


def again(s, d: Live):
    s.stream.close()
    s.stream = d.door()
    return s


@pytest.mark.parametrize("how", ["hup", "order", "stop", "kill"])
def test_the_switch_both_ways(how):
    with Live(ENFORCE) as d:
        anna = Signer("anna").enrol(d)
        d.start()
        s = d.session()
        assert s.opened["mode"] == "enforce" and s.decide("wipe")["verdict"] == "deny"
        if how == "order":
            d.write_policy(SHADOW)
            reply = anna.order(d, "policy.reload")
            assert reply["loaded"] is True and any("mode: shadow lets every call run" in p for p in reply["problems"]), reply
        else:
            switch(d, SHADOW, how)
        until("the operational log says it", lambda: any(LOOSER in x for x in d.lines))
        again(s, d)
        first = s.decide("post", {"to": "eve"}, money="0.7")
        assert (first["verdict"], first["would"]["verdict"], first["would"]["reason"]["rule"]) == ("allow", "deny", "secret"), first
        assert first["reason"]["code"] == "ok" and "shadow mode" in first["reason"]["message"]
        assert s.decide("wipe")["would"]["reason"]["rule"] == "never"  # what enforce had made is told
        over = s.decide("work", {"n": 1}, money="0.7")
        assert over["would"]["reason"]["code"] == "budget" and over["remaining"]["run"]["over"] == "0.4", over
        d.kill()  # what shadow mode remembers is in the log like all else
        d.start()
        again(s, d)
        assert {(x["tool"], x.get("would", False)) for x in s.state()["denials"]} == {("wipe", False), ("post", True)}
        assert s.decide("post", {"to": "bob"}, money="0")["would"]["reason"]["code"] == "sticky_denial"
        held = s.decide("held", {"n": 1}, money="0")
        assert held["review"] is None and held["would"]["verdict"] == "review"
        if how == "order":
            d.write_policy(ENFORCE)
            assert not any("shadow" in p for p in anna.order(d, "policy.reload")["problems"])
        else:
            switch(d, ENFORCE, how)
        again(s, d)
        until("the switch is on disk, which session.state reads", lambda: [x["tool"] for x in s.state()["denials"]] == ["wipe"])
        assert s.decide("post", {"to": "bob"}, money="0")["verdict"] == "allow"
        reply = s.decide("work", {"n": 2}, money="0.1")
        assert reply["reason"]["code"] == "budget" and reply["remaining"]["run"]["over"] == "0.4", reply
        assert s.decide("wipe", {"n": 2})["reason"]["code"] == "rule"
        # the reply to a call that shadow mode let through is what it was, byte for byte
        assert s.stream.ask(s.decide_message("post", {"to": "eve"}, "0.7", call=first["call"])) == first
        assert s.settle(first["decision"], money="0.1")["remaining"]["run"]["remaining"] == "0.2"
        d.stop()
        bodies = [e["body"] for e in d.entries()]
        said = [c for b in bodies for c in b.get("changes", []) if "mode" in c]
        assert said == [LOOSER, TIGHTER]
        modes = [b["mode"] for b in bodies if b["kind"] == "start" or (b["kind"] == "policy" and b["loaded"])]
        assert modes[0] == modes[-1] == "enforce" and "shadow" in modes
        assert all(("would" in b) <= (b.get("shadow") is True and b["verdict"] == "allow") for b in bodies if b["kind"] == "decision")
        assert d.verify().returncode == 10
        judged_again(d)


def test_a_refused_file_keeps_the_mode():
    with Live(SHADOW) as d:
        d.start()
        s = d.session()
        s.decide("post", {"to": "eve"}, money="0")
        d.write_policy(ENFORCE.replace("default: deny", "default: no"))
        os.kill(d.watcher_pid, signal.SIGHUP)
        until("the file is refused", lambda: any(e["body"].get("loaded") is False for e in d.entries()))
        assert d.status()["mode"] == "shadow"
        assert s.decide("post", {"to": "bob"}, money="0")["would"]["reason"]["code"] == "sticky_denial"
        d.stop()
        judged_again(d)


def test_everything_says_the_mode():
    with Live(SHADOW) as d:
        d.start()
        s = d.session()
        assert any("mode: shadow lets every call run" in x for x in d.lines)  # at the start too
        with d.door() as door:
            hello = door.ask({"v": 1, "op": "hello"})
        status = d.status()
        assert s.opened["mode"] == hello["mode"] == status["mode"] == d.ask_operator("review.list")["mode"] == "shadow"
        for told in (hello["promises"], status["promises"]):
            assert told["P2"]["state"] == told["P3"]["state"] == "off" and "shadow" in told["P3"]["why"]
        decision = s.decide("wipe", money="0.5")["decision"]
        s.settle(decision, money="0.5")
        s.decide("held", {"n": 1}, money="0")
        counted = d.status()["counters"]
        assert counted["decide"] == {"allow": 2, "review": 0, "deny": 0} and counted["would"] == {"review": 1, "deny": 1}
        assert d.entries()[0]["body"]["mode"] == "shadow"

        where = ("--dir", str(d.dir))
        why = d.pawl("why", decision, *where)
        assert why.returncode == 0 and f"{decision}: allow (mode shadow)" in why.stdout, why
        assert "would     deny: rule, rule never" in why.stdout and "enforced, with " in why.stdout, why.stdout
        doc = json.loads(d.pawl("why", decision, "--json", *where).stdout)
        assert doc["mode"] == "shadow" and doc["would"]["verdict"] == "deny" and doc["would"]["reason"]["rule"] == "never"
        shown = d.pawl("log", "show", *where).stdout
        assert re.search(r" start .* mode=shadow", shown) and re.search(r" decision allow would=deny wipe .* reason=rule rule=never:", shown), shown
        spent = json.loads(d.pawl("spend", "--json", *where).stdout)["rows"]
        assert [(r["tool"], r["calls"], r["would"], r["settled"], r["would_settled"]) for r in spent] == [
            ("held", 1, 1, "0", "0"), ("wipe", 1, 1, "0.5", "0.5")], spent
        assert "mode: shadow" in d.pawl("status", *where).stdout
        checked = d.pawl("policy", "check", str(d.policy))
        assert checked.returncode == 0 and "4:1: warning: mode: shadow" in checked.stdout, checked
        asked = d.dir / "request.json"
        asked.write_text('{"tool": "wipe", "estimate": {"money": "0"}}')
        told = d.pawl("policy", "explain", str(d.policy), str(asked))
        assert told.returncode == 0 and "allow (mode shadow)" in told.stdout and "would     deny" in told.stdout, told
        watching = subprocess.run([str(live.PAWL), "console", "--operator-socket", d.operator], input="", capture_output=True, text=True,
                                  timeout=30 * live.SLOW, env={**os.environ, "HOME": str(d.dir), "PAWL_DIR": str(d.dir)})
        assert "MODE SHADOW" in watching.stdout, watching


def test_under_enforce_nothing_speaks_of_it():
    with Live(ENFORCE) as d:
        d.start()
        s = d.session()
        for reply in (s.decide("work", {"n": 1}, money="0"), s.decide("wipe"), s.decide("held", {"n": 1}, money="0")):
            assert "would" not in reply
        assert s.decide("work", {"n": 2}, money="0")["reason"]["message"] == ""
        assert not {"P2", "P3"} & set(d.status()["promises"])
        d.stop()
        assert not any(word in e["note"] for e in d.entries() for word in ('"shadow"', '"would"', ":true,\"would"))


def test_what_is_no_policy_keeps_its_say():
    with Live(SHADOW.replace("limits: {decide: 100000/s, burst: 100000}", "limits: {decide: 5/s, burst: 5}")) as d:
        d.start()
        s = d.session()
        assert s.stream.ask({**s.decide_message("work"), "args": []})["error"]["code"] == "malformed"
        assert s.stream.ask({**s.decide_message("work"), "token": "0" * 64})["error"]["code"] == "unauthenticated"
        got = [s.stream.ask(s.decide_message("work", {"n": n}, "0")) for n in range(12)]
        assert any(r.get("error", {}).get("code") == "throttled" for r in got)
        d.stop()
        judged_again(d)


def test_an_abort_where_shadow_mode_alone_has_counted():
    """The row that binds takes over the name of the one that it ends: pawld lives, and starts again from that log."""
    text = RULES.replace("sessions: {lease: 1h}", "sessions: {lease: 1h, abort_hold: 1s}\nbreakers:\n  api: {match: [held], open: {failures: 2}}")
    with Live(text % "") as d:
        anna = Signer("anna").enrol(d)
        d.start()
        s = d.session()
        held = s.decide("held", {"n": 1}, money="0")
        switch(d, text % "mode: shadow\n", "hup")
        s.settle(s.decide("held", {"n": 2}, money="0")["decision"], "error", error={"kind": "e", "sha256": "0" * 64})
        assert "error" not in anna.order(d, "review.resolve", review=held["review"], action="abort", reason="enough")
        d.kill()
        d.start()
        until("the agent is no longer held back", lambda: "error" not in d.door().ask({"v": 1, "op": "session.open", "agent": "local"}))
        assert d.session().decide("held", {"n": 3}, money="0")["would"]["reason"]["code"] == "breaker_open"
        d.stop()
        judged_again(d)


@pytest.mark.parametrize("more", [{"mode": "shadow"}, {"would": {}}, {"limits": {"mode": "shadow"}}, {"labels": {"mode": "shadow"}}])
def test_no_agent_switches_the_mode(more):
    """By no field of its own; a label is a label."""
    with Live(ENFORCE) as d:
        d.start()
        with d.door() as door:
            reply = door.ask({"v": 1, "op": "session.open", "agent": "local", **more})
        if "labels" not in more:
            assert reply["error"]["code"] == "malformed", reply
        s = d.session()
        if "labels" not in more:
            assert s.stream.ask({**s.decide_message("wipe"), **more})["error"]["code"] == "malformed"
        assert s.decide("wipe")["verdict"] == "deny"
        assert s.stream.ask({"v": 1, "op": "policy.reload", "session": s.id, "token": s.token})["error"]["code"] == "malformed"
        assert d.status()["mode"] == "enforce"
