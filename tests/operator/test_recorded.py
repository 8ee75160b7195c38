"""What is kept of arguments (`log: {record_args: …}`): never a secret in any file but under `full`, shown beside the log, private. U10."""
from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess

import pytest

import live

RULES = live.POLICY.replace("...\n", "").replace("  idle: {}\n", "  idle: {}\n  held: {cost: 0 USD}\n")
SECRETS = ["sk-test-1", "value-of-a-cookie", "value-of-a-key", "hunter2-in-a-command", "hunter3-in-a-text", "ghp_0123456789abcdef", "own-name-1", "own-path-1"]
ARGS = {
    "a": {"headers": [{"authorization": "Bearer sk-test-1"}]}, "cookie": "value-of-a-cookie", "private_key": "value-of-a-key",
    "cmd": "curl --password hunter2-in-a-command https://example.com/plain-part", "text": "x\npassword: hunter3-in-a-text\ny",
    "list": ["ghp_0123456789abcdef", 7], "deep": {"Lab-Nr": "own-name-1"}, "note": {"x": "own-path-1"}, "q": "plain-word",
}


def policy(how: str) -> str:
    return RULES + f'log: {{record_args: {how}, redact: [args.note.x, "*.lab_nr"]}}\n...\n'


def everything(d: live.Live) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(d.dir.rglob("*")) if p.is_file() and p.name != "policy.yaml")


def why(d: live.Live, decision: str) -> dict:
    done = d.pawl("why", decision, "--dir", str(d.dir), "--json")
    assert done.returncode == 0 and done.stderr == "", done
    return json.loads(done.stdout)


@pytest.fixture
def at(folder):
    made: list[live.Live] = []

    def make(how: str) -> live.Live:
        made.append(live.Live(policy(how), folder / f"d{len(made)}"))
        return made[-1]

    yield make
    for d in made:
        d.kill()


@pytest.mark.parametrize("how", ["digest", "redacted"])
def test_no_secret_in_any_file(at, how):
    d = at(how).start()
    s = d.session()
    seen = [s.decide(tool, ARGS)["decision"] for tool in ("work", "forbidden", "nobody-knows-it")]  # allowed, denied, denied
    while_it_runs = everything(d)
    d.kill()
    killed = everything(d)
    d.start()
    d.stop()
    for where in (while_it_runs, killed, everything(d)):
        assert not [x for x in SECRETS if x.encode() in where]
    assert (b"plain-word" in everything(d)) == (how == "redacted")
    for e in d.entries():
        if e["body"]["kind"] == "decision":
            assert e["body"]["args_mac"]
    for decision in seen:
        assert ("args" in why(d, decision)) == (how == "redacted")


def test_shown_beside_the_log(at):
    d = at("redacted").start()
    s = d.session()
    decision = s.decide("work", ARGS)["decision"]
    other = s.decide("work", {"q": "\u001b[2J\u202e" + "\u007f", "back": "\\"})["decision"]
    want = {
        "a": {"headers": [{"authorization": "[redacted]"}]}, "cookie": "[redacted]", "private_key": "[redacted]",
        "cmd": "curl --password [redacted] https://example.com/plain-part", "text": "x\npassword: [redacted]\ny", "list": ["[redacted]", 7],
        "deep": {"Lab-Nr": "[redacted]"}, "note": {"x": "[redacted]"}, "q": "plain-word",
    }
    assert json.loads(why(d, decision)["args"]) == want  # pawld runs
    d.kill()
    d.start()  # a start drops what no card needs: not this
    assert json.loads(why(d, decision)["args"]) == want
    lines = d.pawl("why", decision, "--dir", str(d.dir)).stdout
    assert "\nargs      " in lines and "plain-word" in lines
    shown = d.pawl("log", "show", "--dir", str(d.dir), "--args", "--kind", "decision")
    assert shown.returncode == 0 and shown.stdout.count("\n         args {") == 2, shown
    for text in (shown.stdout, d.pawl("why", other, "--dir", str(d.dir)).stdout):
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or c in "\x7f\u202e"]
    rows = [json.loads(x) for x in d.pawl("log", "show", "--dir", str(d.dir), "--args", "--json").stdout.splitlines()]
    kept = {r["recorded"]: json.loads(r["args"]) for r in rows if "recorded" in r}
    assert kept[int(decision[2:])] == want and len(kept) == 2
    assert "recorded" not in d.pawl("log", "show", "--dir", str(d.dir), "--json").stdout


@pytest.mark.parametrize("how", ["digest", "full"])
def test_a_card_shows_no_secret(at, how):
    """`reviews: {show_args: redacted}`, whatever is recorded; and the card's digest is that of the whole."""
    d = at(how).start()
    review = d.session().decide("held", ARGS)["review"]
    card = d.ask_operator("review.show", review=review)
    assert not [x for x in SECRETS if x in card["args"]] and len(card["args"].encode()) == card["args_bytes"]
    assert json.loads(card["args"])["q"] == "plain-word" and json.loads(card["args"])["cookie"] == "[redacted]"
    text = d.pawl("review", "show", review, "--dir", str(d.dir)).stdout
    assert "[redacted]" in text and "CUT" not in text and not [x for x in SECRETS if x in text]
    big = d.session().decide("held", {"a": "x" * 70000, "password": "hunter2"})["review"]
    card = d.ask_operator("review.show", review=big)
    assert card["args_bytes"] == 0 and len(card["args"].encode()) == 65536


def test_full_keeps_all_and_a_reload_ends_it(at):
    d = at("full").start()
    s = d.session()
    first = s.decide("work", ARGS)["decision"]
    assert json.loads(why(d, first)["args"]) == ARGS
    d.write_policy(policy("digest"))
    d.ask_operator("status")
    before = d.seq()
    os.kill(d.process.pid, 1)
    live.until("the reload is in the log", lambda: d.seq() > before)
    second = s.decide("work", ARGS)["decision"]
    assert json.loads(why(d, first)["args"]) == ARGS and "args" not in why(d, second)
    [change] = [e["body"]["changes"] for e in d.entries() if e["body"]["kind"] == "policy"]
    assert change == ["tightened: log.record_args full -> digest"]


def test_forget(at):
    d = at("full").start()
    gone, stays = d.session(), d.session()
    first, second = gone.decide("work", {"q": "forget-this-word"})["decision"], stays.decide("work", {"q": "keep-this-word"})["decision"]
    gone.decide("held", {"q": "forget-this-word"})
    forget = ("store", "forget", "--dir", str(d.dir), "--session")
    assert d.pawl(*forget, gone.id).returncode == 75 and "args" in why(d, first)
    d.stop()
    assert d.pawl(*forget[:-1]).returncode == 2 and d.pawl(*forget, "7").returncode == 2
    assert json.loads(d.pawl(*forget, gone.id, "--json").stdout) == {"session": gone.id, "rows": 4}
    again = d.pawl(*forget, gone.id)
    assert again.returncode == 1 and "nothing is kept" in again.stderr
    assert b"forget-this-word" not in everything(d) and b"keep-this-word" in everything(d)
    assert "args" not in why(d, first) and "args" in why(d, second)
    d.start()  # its calls could no longer be compared: it ends
    assert stays.id in [s["session"] for s in d.ask_operator("session.list")["sessions"] if not s["ended"]]
    assert gone.id not in [s["session"] for s in d.ask_operator("session.list")["sessions"] if not s["ended"]]


def test_without_the_store(at):
    """It is lost, or another's: the log is shown all the same."""
    d = at("full").start()
    decision = d.session().decide("work", ARGS)["decision"]
    d.stop()
    private = d.dir / "state" / "private.sqlite"
    kept = private.read_bytes()
    private.unlink()
    assert "args" not in why(d, decision)
    private.write_bytes(b"x" * 5000)
    done = d.pawl("why", decision, "--dir", str(d.dir))
    assert done.returncode == 0 and "cannot be read" in done.stderr and done.stderr.count("\n") == 1 and "\nargs" not in done.stdout
    private.write_bytes(kept)
    assert json.loads(why(d, decision)["args"]) == ARGS


def test_files_are_private_whatever_the_umask(folder):
    """U12: under umask 0 too, journals beside a database while it is written included."""
    was = os.umask(0)
    try:
        d = live.Live(policy("full"), folder / "d")
        d.start()
        s = d.session()
        seen: dict[str, int] = {}
        for _ in range(20):
            s.decide("work", ARGS)
            for p in [*d.dir.joinpath("state").iterdir(), *d.dir.joinpath("log").iterdir()]:
                try:
                    seen[p.name] = seen.get(p.name, 0) | (stat.S_IMODE(p.stat().st_mode) & (0o077 if p.is_dir() else 0o177))
                except FileNotFoundError:
                    pass
        d.stop()
    finally:
        os.umask(was)
    assert {"private.sqlite", "private.sqlite-journal", "projection.sqlite", "projection.sqlite-wal", "projection.sqlite-shm"} <= set(seen)
    assert any(name.startswith("journal-") for name in seen)
    assert {name: oct(mode) for name, mode in seen.items() if mode} == {}
    d.kill()


def test_a_policy_in_reach_of_what_it_judges(folder):
    """Semantics: not below any writes_under, at a start and at a reload; with the place."""
    d = live.Live(RULES + "...\n", folder / "d")
    bad = RULES + f"watch:\n  writes_under: [{folder}]\n...\n"
    line = bad.count("\n") - 1
    d.write_policy(bad)
    code, said = d.try_start()
    assert code != 0 and f"policy.yaml:{line}:18: writes_under: \"{folder}\" holds this policy file" in said
    done = subprocess.run([str(live.PAWL), "policy", "check", "d/policy.yaml"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1 and f"d/policy.yaml:{line}:18: error: writes_under:" in done.stdout
    d.write_policy(RULES + "watch: {writes_under: [workspace, /nowhere]}\n...\n")
    d.start()
    d.write_policy(bad)
    before = d.seq()
    os.kill(d.process.pid, 1)
    live.until("the refusal is in the log", lambda: d.seq() > before)
    [entry] = [e["body"] for e in d.entries() if e["body"]["kind"] == "policy"]
    assert entry["loaded"] is False and "holds this policy file" in entry["message"]
    assert isinstance(d.policy, pathlib.Path)
    d.stop()
