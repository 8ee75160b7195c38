"""`pawl log replay`: what a live pawld answered, judged again from its log alone. P5.

A log in which much has happened comes out byte for byte, also after kills and reloads, and from a copy. A log that somebody with a key has
written again does not.
"""
from __future__ import annotations

import datetime
import hashlib
import json
import shutil
import time

import pytest

import live
import relog
from signer import Signer

POLICY = """pawl: 1
name: replayed
default: deny
tools:
  fixed: {cost: 0.25 USD}
  short: {cost: 0.01 USD, lease: 1s}
  fs.write: {aliases: [write_file]}
  net.get: {uses: [net]}
  poll: {polling: true}
rules:
  - {id: workspace, allow: [fs.write], when: {args.path: {under: workspace/}}}
  - {id: big, deny: [fs.write], when: {args.size: {over: 100}}, sticky: tree}
  - {id: never, deny: [forbidden, net]}
  - {id: ask, review: [held]}
  - {id: talk, allow: [fixed, short, dear, chat, poll, net.get, "web.*"]}
budgets:
  run: {per: session, limit: 2 USD, match: [fixed, short, dear], then: review, grant_max: 5 USD}
  words: {per: agent, limit: 1000 tokens, match: chat, every: day, zone: Europe/Berlin}
loops:
  repeat: {same: [tool, args], limit: 3}
  cycle: {limit: 2}
  errors: {limit: 2}
breakers:
  web: {match: ["web.*"], open: {failures: 2}, cool_down: 1s}
sessions: {lease: 1h}
...
"""
TIGHTER = POLICY.replace("limit: 2 USD", "limit: 1 USD").replace("limit: 3}", "limit: 2}")
RENAMED = TIGHTER.replace("  run: {per", "  purse: {per")
EQUAL, DIFFERS, SKIPPED, NOTHING, TAMPERED, INCOMPLETE, WRONG_KEY = 0, 20, 21, 22, 12, 13, 14


@pytest.fixture
def daemon(folder):
    (folder / "workspace").mkdir()
    with live.Live(POLICY, folder / "d") as d:
        d.anna = Signer("anna").enrol(d)
        yield d.start()


def resume(d, review: str) -> None:
    assert "error" not in d.anna.order(d, "review.resolve", review=review, action="resume", reason="asked")


def claim(s, held, tool: str, args=None, **more):
    return s.stream.ask(s.decide_message(tool, args, op="claim", review=held["review"], **more))


def money_and_loops(s) -> None:
    for i in range(3):
        s.settle(s.decide("fixed", {"i": i}, "0.5", limits={"money": "1.75", "repeat": 5, "lease": "20m"})["decision"], "ok", "0.6")
    assert s.decide("fixed", {"i": 9}, limits={"money": "9"})["limits_ignored"]
    for _ in range(4):
        last = s.decide("poll", {"same": 1})
        if last["verdict"] == "allow":
            s.settle(last["decision"])
    for name in ("web.a", "web.b", "web.a", "web.b", "web.a"):
        s.decide(name, {"n": 1})
    chat = s.decide("chat", {"q": 1}, kind="llm", model="m", estimate={"tokens": 900})
    s.stream.ask(s.message("settle", decision=chat["decision"], outcome="ok", cost={"tokens": 800}))
    assert s.decide("chat", {"q": 2}, kind="llm", model="m", estimate={"tokens": 900})["reason"]["code"] == "budget"


def denials(s) -> None:
    assert s.decide("forbidden")["verdict"] == "deny"
    assert s.decide("net.get")["reason"]["code"] == "transitive"
    assert s.decide("fs.write", {"path": "workspace/a", "size": 1})["verdict"] == "allow"
    assert s.decide("write_file", {"path": "/etc/passwd", "size": 1})["verdict"] == "deny"
    assert s.decide("write_file", {"path": "workspace/a", "size": 101})["reason"]["rule"] == "big"
    assert s.decide("fs.write", {"path": "workspace/a", "size": 1})["reason"]["code"] == "sticky_denial"
    assert s.decide("nobody")["reason"]["code"] == "default"


def people(d, s) -> None:
    held = s.decide("held", {"a": 1})
    assert claim(s, held, "held", {"a": 1})["verdict"] == "review"
    resume(d, held["review"])
    assert claim(s, held, "held", {"a": 1})["verdict"] == "allow"
    assert claim(s, held, "held", {"a": 1})["verdict"] == "deny"
    skipped = s.decide("held", {"a": 2})
    d.anna.order(d, "review.resolve", review=skipped["review"], action="skip", reason="")
    assert s.decide("held", {"a": 2})["reason"]["code"] == "review_skipped"
    dear = s.decide("dear", {"d": 1}, "4")
    assert dear["verdict"] == "review"
    resume(d, dear["review"])
    assert s.decide("dear", {"d": 1}, "4")["verdict"] == "allow"


def breakers(s) -> None:
    for i in range(2):
        s.settle(s.decide("web.c", {"i": i})["decision"], "error", error={"kind": "e", "sha256": hashlib.sha256(b"x").hexdigest()})
    assert s.decide("web.c", {"i": 3})["reason"]["code"] == "breaker_open"
    time.sleep(1.1)
    s.settle(s.decide("web.c", {"i": 4})["decision"], "ok")


def ends(d) -> None:
    s = d.session()
    call = s.decide("short")["decision"]
    live.until("the lease is over", lambda: call not in s.state()["open"])
    assert s.settle(call, "ok", "0.02")["late"]
    assert s.decide("short", call=f"c-{s.calls}")["reason"]["code"] == "already_settled"
    child = d.session(parent=s.id, parent_token=s.token, limits={"money": "0.3"})
    child.decide("fixed", {"c": 1})
    d.anna.order(d, "session.abort", session=child.id, reason="enough")
    assert child.decide("fixed")["reason"]["code"] == "session_aborted"


def reload(d, text: str) -> None:
    d.write_policy(text)
    assert d.anna.order(d, "policy.reload")["loaded"] is ("nonsense" not in text)


def traffic(d, root) -> live.Session:
    s = d.session(root=str(root), labels={"run": "1"})
    money_and_loops(s)
    denials(s)
    people(d, s)
    return s


def test_all_of_it_comes_out_again(daemon, folder, person):
    s = traffic(daemon, folder)
    breakers(s)
    daemon.kill()
    daemon.start()
    s.stream = daemon.door()
    t = daemon.session(root=str(folder))
    ends(daemon)
    reload(daemon, TIGHTER)
    assert [t.decide("chat", {"i": 1})["verdict"] for _ in range(4)] == ["allow", "allow", "deny", "deny"]
    reload(daemon, POLICY.replace("rules:", "nonsense:"))
    reload(daemon, RENAMED)
    t.settle(t.decide("fixed", {"after": 1})["decision"])
    t.decide("held", {"a": 3})
    daemon.kill()
    daemon.start()
    beside = daemon.replay()  # while it runs
    assert beside[0] == EQUAL, beside
    daemon.stop()
    status, said = daemon.replay()
    assert status == EQUAL and said["status"] == "equal" and said["differ"] == said["skipped"] == 0, said
    kinds = [e["body"]["kind"] for e in daemon.entries()]
    assert {"start", "policy", "session", "decision", "claim", "settle", "resolve", "loss", "key", "stop"} <= set(kinds)
    assert said["entries"] == len(kinds) == said["equal"] + said["given"] and said["given"] <= kinds.count("key") + kinds.count("stop") + 3
    assert [p["entries"] > 5 for p in said["policies"]] == [True] * 3 and sum(p["entries"] for p in said["policies"]) == len(kinds)
    # a copy, in words
    shutil.copytree(daemon.log_dir, folder / "copy" / "log")
    files = [x for p in said["policies"] for x in ("--policy", p["file"])]
    words = person.ok("log", "replay", str(folder / "copy"), "--key", str(daemon.dir / "entry.vkey"), *files)
    assert words.startswith("equal: every answer") and f"judged again and equal {said['equal']}" in words
    # one policy is missing: its entries are left out, and only they
    status, part = daemon.replay(texts=[POLICY, RENAMED])
    missing = hashlib.sha256(TIGHTER.encode()).hexdigest()
    assert status == SKIPPED and part["differ"] == 0 and part["left_out"][0]["what"] == missing, part
    status, none = daemon.replay(texts=[POLICY + "\n"])
    assert status == NOTHING and none["skipped"] == none["entries"] and none["equal"] == 0


# ---- logs that were written again by somebody with a key


def doctor(daemon, folder, change):
    daemon.stop()
    vkey = relog.rewrite(daemon, folder / "w" / "log", change)
    done = daemon.pawl("log", "verify", str(folder / "w"), "--key", vkey)
    assert done.returncode == 10, done  # for verify it is genuine
    texts = {p for p in daemon.policies}
    words = []
    for i, text in enumerate(sorted(texts)):
        (folder / f"{i}.yaml").write_text(text)
        words += ["--policy", str(folder / f"{i}.yaml")]
    done = daemon.pawl("log", "replay", str(folder / "w"), "--key", vkey, "--json", *words)
    return done.returncode, json.loads(done.stdout)


def last(bodies, **want):
    return next(b for b in reversed(bodies) if all(b.get(k) == v for k, v in want.items()))


def turn_to_allow(bodies):
    """The newest denial: as if it had been allowed."""
    b = last(bodies, kind="decision", verdict="deny")
    now = datetime.datetime.fromisoformat(b["now"][:19])
    b["verdict"], b["reason"] = "allow", {"code": "ok", "message": "", "rule": "talk"}
    b["lease_until"] = (now + datetime.timedelta(minutes=15)).isoformat() + b["now"][19:]
    return bodies.index(b)


def spend_less(bodies):
    b = next(b for b in bodies if b["kind"] == "settle" and b["charged"]["money"] == "0.6")
    b["charged"]["money"] = "0"
    return bodies.index(b)


def forget_a_stick(bodies):
    b = next(b for b in bodies if b.get("sticks") and b["tool"] == "forbidden")
    del b["sticks"]
    return bodies.index(b)


@pytest.mark.parametrize("change, field", [(turn_to_allow, "verdict"), (spend_less, "charged.money"), (forget_a_stick, "sticks")])
def test_a_log_that_somebody_wrote_again(change, field, daemon, folder):
    s = traffic(daemon, folder)
    s.settle(s.decide("poll", {"x": 1})["decision"])
    s.decide("nobody", {"x": 2})
    where = []
    status, said = doctor(daemon, folder, lambda bodies: where.append(change(bodies)))
    assert status == DIFFERS and said["status"] == "differs" and said["differ"] == 2, said
    # itself, and the snapshot at the orderly end, whose digest speaks of what really happened
    assert [said["differences"][0]["entry"]] == where
    assert said["differences"][1]["kind"] == "snapshot" and [f["field"] for f in said["differences"][1]["fields"]] == ["sha256"], said
    assert field in [f["field"] for f in said["differences"][0]["fields"]]
    assert said["differences"][0]["logged"] != said["differences"][0]["again"]


def on_trial(d) -> None:
    """Shadow mode: calls that would be denied, asked about, over the limit."""
    reload(d, POLICY.replace("default: deny", "default: deny\nmode: shadow"))
    s = d.session()
    assert s.decide("forbidden")["would"]["verdict"] == "deny"
    assert s.decide("held", {"n": 1})["would"]["verdict"] == "review"
    assert s.decide("dear", {"d": 1}, "3")["would"]["reason"]["code"] == "budget"


def hide_would(bodies):
    b = next(b for b in bodies if b.get("would", {}).get("verdict") == "review" and b["tool"] == "held")
    del b["would"]
    return bodies.index(b)


def would_be_asked(bodies):
    b = next(b for b in bodies if b.get("would", {}).get("reason", {}).get("code") == "budget")
    b["would"]["verdict"] = "deny"
    return bodies.index(b)


def make_up_would(bodies):
    told = next(b["would"] for b in bodies if "would" in b and b["tool"] == "held")
    b = last(bodies, kind="decision", tool="fixed", shadow=True)
    b["would"] = told
    return bodies.index(b)


@pytest.mark.parametrize("change, field", [(hide_would, "would"), (would_be_asked, "would.verdict"), (make_up_would, "would")])
def test_what_would_have_been_is_judged_again(change, field, daemon, folder):
    on_trial(daemon)
    assert "would" not in daemon.session().decide("fixed", {"n": 1})
    reload(daemon, POLICY)
    assert daemon.session().decide("forbidden")["verdict"] == "deny"
    where = []
    status, said = doctor(daemon, folder, lambda bodies: where.append(change(bodies)))
    assert status == DIFFERS and [d["entry"] for d in said["differences"]] == where, said
    assert [f["field"] for f in said["differences"][0]["fields"]] == [field]
    assert daemon.replay()[0] == EQUAL


def test_unchanged_and_signed_again(daemon, folder):
    """What rewrites is not what is found."""
    traffic(daemon, folder)
    status, said = doctor(daemon, folder, lambda bodies: None)
    assert status == EQUAL and said["differ"] == 0, said


def test_an_answer_that_cannot_follow(daemon, folder):
    """An allow with nothing reserved, settled later: not what was judged, and the entries after it contradict it."""
    def change(bodies):
        b = next(b for b in bodies if b["kind"] == "decision" and b["verdict"] == "allow" and b["tool"] == "fixed")
        del b["draws"][0]["amount"]

    traffic(daemon, folder)
    status, said = doctor(daemon, folder, change)
    assert status == TAMPERED and "contradicts the entries before it" in said["message"], said
    assert said["differences"][0]["entry"] < said["bad"] and "draws.0.amount" in [f["field"] for f in said["differences"][0]["fields"]], said


def test_another_judge(daemon, folder):
    """Semantics 1: a log of another judge is read, and not judged by this one."""
    traffic(daemon, folder)
    daemon.kill()
    daemon.start()
    daemon.session().decide("fixed")
    starts = [e["seq"] for e in daemon.entries() if e["body"]["kind"] == "start"]

    def older(bodies):
        bodies[0]["judge"] = 7

    status, said = doctor(daemon, folder, older)
    assert status == SKIPPED and said["differ"] == 0 and said["equal"] > 2, said
    assert [(x["why"], x["what"], x["first"], x["last"]) for x in said["left_out"]] == [("judge", "7", 0, starts[1] - 1)]
    assert "version 7" in said["message"] and "this is version 1" in said["message"]

    def all_older(bodies):
        for b in bodies:
            if b["kind"] == "start":
                b["judge"] = 7

    shutil.rmtree(folder / "w")
    daemon.start()
    status, said = doctor(daemon, folder, all_older)
    assert status == NOTHING and said["equal"] == said["differ"] == 0 and said["skipped"] == said["entries"] and "Refused" in said["message"], said


# ---- what verify finds, replay finds


def test_faults_of_the_log_itself(daemon, folder, person):
    daemon.session().decide("fixed")
    daemon.session().decide("fixed")
    daemon.stop()
    segment, policy = daemon.segments()[0], ("--policy", str(daemon.policy))
    whole = segment.read_bytes()
    other = person.ok("key", "new", "--name", "anna", "--no-passphrase").strip()
    assert person.run("log", "replay", *policy, "--key", other).returncode == WRONG_KEY
    at = whole.index(b'"allow"') + 1
    segment.write_bytes(whole[:at] + b"x" + whole[at + 1 :])
    done = person.run("log", "replay", *policy)
    assert done.returncode == TAMPERED and done.stdout.startswith(b"tampered: "), done
    end = whole.rindex(b"PAWL\0B1\n")
    segment.write_bytes(whole[: end + 200].ljust(len(whole), b"\0"))
    done = person.run("log", "replay", *policy)
    assert done.returncode == INCOMPLETE and done.stdout.startswith(b"incomplete: "), done
    segment.write_bytes(bytes(len(whole)))
    assert person.run("log", "replay", *policy).returncode == 11
    assert person.run("log", "replay", *policy, "--dir", str(folder / "nowhere")).returncode == 1


@pytest.mark.parametrize("words, status", [
    (("log", "replay"), 2), (("log", "replay", "--policy"), 2), (("log", "replay", "--no-such"), 2), (("log", "replay", "a", "b", "--policy", "p"), 2),
    (("log", "replay", "--policy", "no-such-file"), 1), (("log", "replay", "--help"), 0),
])
def test_usage(words, status, person):
    done = person.run(*words)
    assert done.returncode == status and bool(done.stdout) is (status == 0) and bool(done.stderr) is (status != 0), done


def test_too_many_policies(person):
    done = person.run("log", "replay", *["--policy", "p"] * 65)
    assert done.returncode == 2 and b"at most 64 policies" in done.stderr and not done.stdout


def test_a_bad_policy_is_said_with_its_place(daemon, folder, person):
    (folder / "bad.yaml").write_text(POLICY.replace("rules:", "rulez:"))
    done = person.run("log", "replay", "--policy", str(folder / "bad.yaml"))
    assert done.returncode == 1 and b'unknown key "rulez"' in done.stderr and not done.stdout
    done = person.run("log", "replay", "--policy", str(daemon.policy), "--policy", str(daemon.policy))
    assert done.returncode == 2 and b"the same policy" in done.stderr
