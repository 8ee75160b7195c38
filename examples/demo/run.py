"""`make demo`: a real agent in front of a real pawld, in build/demo/. Standard library only; exits non-zero when anything is not as promised.

What it shows: calls allowed, held for review and denied, with reason and number; money spent to its limit; pawld killed with SIGKILL in
the middle of a call and nothing lost or given back; a tool denied because of what it uses; a write that waits for a person, resumed once
and skipped once; rows edited in SQLite that change nothing; an API whose breaker opens and recovers; a child session on its
parent's money; the signed log verified, every answer in it judged again, and one flipped byte in a copy of it caught; and what is run under
watch (watch.py): a forbidden program, a script that does not end and a fork bomb, each stopped and in the log.
Leaves build/demo/{policy.yaml,state/,log/,entry.vkey} behind.
"""
from __future__ import annotations

import argparse
import contextlib
import contextvars
import hashlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from stage import (COPY, DIR, SOCKET, WAIT, Daemon, Failed, answers, command, expect, head, note, paint, pawl, row, say, show,
                   wait_for)

import agent  # examples/agent: stage has put it on the path
import api
import watch

VERIFY_OK, VERIFY_TAMPERED = 0, 12

# ---- the run ----

# What the policy in examples/agent says to each step of the plan: verdict and reason code.
EXPECTED = [
    ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"),
    ("deny", "loop_repeat"), ("review", "rule"), ("deny", "default"), ("deny", "default"), ("deny", "rule"), ("deny", "transitive"),
    ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("deny", "budget"), ("allow", "ok"),
]
KEPT = ("decisions", "executions", "remaining", "open", "reviews", "denials", "ended")


def kept(session: Any) -> dict[str, Any]:
    """What a crash may not change: all of session.state but the clock's part of it."""
    state = session.state()
    missing = [k for k in KEPT if k not in state]
    expect(f"session.state tells {', '.join(missing)}", not missing)
    return {k: state[k] for k in KEPT}


def run_amount(state: dict[str, Any], what: str) -> str:
    return f"{state['remaining']['run'][what]} {state['remaining']['run']['unit']}"


def number(e: Any, charged: Decimal) -> str:
    """The number that a row is about: what was charged, the card that waits, or the counter that ran into its limit."""
    if e is None:
        return f"charged {charged.normalize():f}"
    if getattr(e, "review", None):
        return f"waits as {e.review}"
    return f"{e.counter} of {e.limit} {e.unit or ''}".strip() if getattr(e, "limit", None) is not None else ""


def crash_in_call(daemon: Daemon, session: Any) -> None:
    """An allowed call is running, its reservation is open, and pawld dies as hard as a process can."""
    before = kept(session)
    expect("the running call is open before the kill", len(before["open"]) == 1)
    killed = daemon.kill_both()
    expect("no pawld, no verdict", not answers())
    daemon.start()
    after = kept(session)
    say(paint("note", f"     the next call is allowed and runs; SIGKILL to {killed} processes of pawld in the middle of it; started again:"))
    for word, state in (("before", before), ("after", after)):
        say(paint("note", f"       {word + ':':8} used {run_amount(state, 'used')}, open {', '.join(state['open'])}, {state['decisions']} decisions"))
    expect(f"nothing lost, nothing given back: {before} is {after}", before == after)


def rows(text: str) -> list[tuple[Any, ...]]:
    """What people ask the projection, as the sqlite3 shell would."""
    with contextlib.closing(sqlite3.connect(DIR / "state" / "projection.sqlite")) as db, db:
        return db.execute(text).fetchall()


def edited_rows(daemon: Daemon, session: Any) -> None:
    """The log is what counts; SQLite is a copy for people."""
    before = kept(session)
    expect("pawld stops on TERM with status 0", daemon.stop() == 0)
    for tool, calls, settled in rows("SELECT tool,calls,settled FROM spend_by_tool WHERE calls>0 ORDER BY tool"):
        say(paint("note", f"       {tool:14} {calls} calls, {settled} settled"))
    told = "SELECT spent,reserved FROM ledger WHERE budget='run'"
    was = rows(told)
    rows("UPDATE ledger SET spent=0,reserved=0,granted=1000000000000")
    expect("the rows are edited", rows(told) == [(0, 0)] * len(was) and was)
    say(f"ledger run: spent and reserved {', '.join(map(str, was[0]))} nano-units, now 0, 0; 1000 granted")
    daemon.start()
    after = kept(session)
    say(f"used {run_amount(before, 'used')} before, {run_amount(after, 'used')} after")
    expect(f"an edited row changes nothing: {before} is {after}", before == after)


def steps(daemon: Daemon, session: Any) -> None:
    plan = agent.plan("docs/wire.md")
    expect("one expectation a step", len(plan) == len(EXPECTED))
    crashed: list[str] = []

    def during_read(path: str) -> None:
        if path == "docs/wire.md" and not crashed:
            crashed.append(path)
            crash_in_call(daemon, session)

    agent.during_read = during_read
    row("", "call", "verdict ", "reason", "number", "run has left")
    used = Decimal(0)
    for n, (outcome, (verdict, code)) in enumerate(zip(agent.run(plan), EXPECTED), 1):
        e, state = outcome.refusal, kept(session)
        got = str(getattr(e, "code", "ok" if e is None else type(e).__name__))
        rule = getattr(e, "rule", None)
        charged, used = Decimal(state["remaining"]["run"]["used"]) - used, Decimal(state["remaining"]["run"]["used"])
        row(n, outcome.step.shown, outcome.verdict, f"{got} {rule}" if rule else got, number(e, charged), run_amount(state, "remaining"))
        if (outcome.verdict, got) != (verdict, code):
            raise Failed(f"step {n} is to be {verdict} {code}; it was {outcome.verdict} {got}: {e}")
        expect(f"step {n}: only an allowed call is charged, not {charged}", (charged > 0) == (verdict == "allow"))
        if got in ("loop_repeat", "transitive", "budget"):
            note(str(e))
    expect("the kill has happened", crashed)


# ---- a person ----

OPERATOR = "anna"
FOUND = "what the agent found"


def enrol(tool: str) -> None:
    """A key without a passphrase is for demos: whoever reads the file answers in its name."""
    made = command(tool, "key", "new", "--no-passphrase", "--name", OPERATOR, "--out", str(DIR / "operator.key"))
    vkey = next((line for line in made.stdout.split() if line.startswith(f"{OPERATOR}+")), None)
    if vkey is None:
        raise Failed(f"pawl key new prints the public line: {made.stdout}{made.stderr}")
    show(command(tool, "operator", "add", OPERATOR, vkey, "--dir", str(DIR)))


class Waiting:
    """A tool call in a thread of its own: it hangs in its @guard(wait=...) while a person makes up their mind."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as e:
            self.error = e

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> "Waiting":
        self._thread.join(WAIT)
        expect("the call has come back", not self.waits)
        return self


def cards(tool: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(tool, "reviews", "--json", "--dir", str(DIR)).stdout)["reviews"]
    return [c for c in found if c["tool"] == "fs.write"]


def reviewed(tool: str, shown: str, call: Callable[[], Any], verb: str, reason: str) -> tuple[Waiting, str]:
    """Asks in a thread, finds the card as a person would, answers it with the program that a person has."""
    asked = Waiting(call)
    wait_for("the write's card", lambda: cards(tool) or not asked.waits)
    found = cards(tool)
    expect(f"one card waits, not {len(found)}; the call: {asked.error or asked.result}", len(found) == 1 and asked.waits)
    card = found[0]
    row("", shown, "review", f"rule {card['asks'][0]['rule']}", f"waits as {card['review']}", "")
    if verb == "resume":
        show(command(tool, "review", "show", card["review"], "--dir", str(DIR)))
    time.sleep(0.3)
    expect("the agent waits, its body has not run", asked.waits)
    show(command(tool, verb, card["review"], "--reason", reason, "--key", str(DIR / "operator.key"), "--dir", str(DIR)))
    return asked.end(), card["review"]


def person(tool: str) -> None:
    good, bad = DIR / "summary.txt", DIR / "other.txt"
    with pawl.Session(root=".", socket=SOCKET, labels={"run": "person"}) as session:
        def write(path: pathlib.Path) -> Callable[[], Any]:
            return lambda: agent.write(str(path), FOUND)

        asked, review = reviewed(tool, f"fs.write {good}", write(good), "resume", "a summary, in its own folder")
        expect(f"a resumed write runs: {asked.error}", asked.error is None)
        expect("its body ran once", good.read_text() == FOUND)
        row("", f"fs.write {good}", "allow", "resumed", f"by {OPERATOR}, {review}", run_amount(session.state(), "remaining"))

        asked, review = reviewed(tool, f"fs.write {bad}", write(bad), "skip", "one summary is enough")
        no = asked.error
        expect(f"a skipped write raises Skipped, not {no!r}", isinstance(no, pawl.Skipped))
        expect(f"Skipped names {OPERATOR} and the reason: {no}", (no.operator, no.operator_reason) == (OPERATOR, "one summary is enough"))
        row("", f"fs.write {bad}", "deny", str(no.code), f"by {no.operator}, {review}", run_amount(session.state(), "remaining"))
        again = Waiting(write(bad)).end().error
        expect(f"asked again it is skipped at once, not {again!r}", isinstance(again, pawl.Skipped) and not cards(tool))
        expect("the skipped body never ran", not bad.exists())
        used = session.state()["remaining"]["run"]["used"]
        expect(f"one write is charged, once, not {used}", Decimal(used) == Decimal("0.002"))


# ---- an API ----


def shown_answer(name: str, answer: Any) -> None:
    retry = f"Retry-After: {answer.headers['Retry-After']}" if "Retry-After" in answer.headers else ""
    colour = {200: "allow", 503: "deny"}.get(answer.status, "review")
    say(f"     GET /quote/{name:16} {paint(colour, str(answer.status))}  {retry or answer.text}")


def breaker() -> None:
    with pawl.Session(root=".", socket=SOCKET, labels={"run": "api"}) as session:
        upstream = api.Upstream()
        handler = api.Handler(session, upstream)

        def get(name: str, status: int) -> Any:
            answer = handler.get(name)
            shown_answer(name, answer)
            expect(f"GET {name} is {status}, not {answer.status} {answer.text}", answer.status == status)
            return answer

        get("first", 200)
        upstream.down = True
        for n in (1, 2, 3):
            get(f"fails-{n}", 502)
        opened, reached = time.monotonic(), upstream.reached
        refused = get("open", 503)
        expect("a 503 of an open breaker says Retry-After, at most the cool-down", refused.headers.get("Retry-After") in ("1", "2"))
        expect("nobody reaches the upstream while the breaker is open", upstream.reached == reached == 4)

        upstream.down = False
        note("the upstream is well again; the cool-down passes; four requests come at once, the upstream is slow:")
        time.sleep(max(0.0, opened + 2.1 - time.monotonic()))
        upstream.gate.clear()
        answers: dict[str, Any] = {}
        try:
            many = [Waiting(lambda n=f"at-once-{i}": answers.__setitem__(n, handler.get(n))) for i in range(1, 5)]  # type: ignore[misc]
            wait_for("three of four are turned away", lambda: len(answers) == 3)
            expect("exactly one probe is let through", upstream.reached == reached + 1 and sum(w.waits for w in many) == 1)
        finally:
            upstream.gate.set()
        for w in many:
            expect(f"the handler answers: {w.end().error}", w.error is None)
        for name in sorted(answers):
            shown_answer(name, answers[name])
        got = sorted(a.status for a in answers.values())
        expect(f"one 200 and three 503, not {got}", got == [200, 503, 503, 503])
        expect("each of these 503 says Retry-After", all("Retry-After" in a.headers for a in answers.values() if a.status == 503))
        get("after-1", 200)
        get("after-2", 200)


# ---- a child ----


def child() -> Any:
    """Returns the last permit, whose entry the log is checked against."""
    with pawl.Session(root=".", socket=SOCKET, labels={"run": "parent"}) as parent:
        agent.read("README.md")
        row("", "parent: fs.read README.md", "allow", "ok", "", run_amount(parent.state(), "remaining"))
        with parent.child(labels={"run": "child"}, limits={"money": "25%"}) as below:
            for path in ("LICENSE", "Makefile"):
                agent.read(path)
                row("", f"child:  fs.read {path}", "allow", "ok", "", run_amount(parent.state(), "remaining"))
            try:
                agent.summarise("LICENSE", 1)
            except pawl.Denied as e:
                row("", "child:  text.summary LICENSE 1", "deny", str(e.code), number(e, Decimal(0)), run_amount(parent.state(), "remaining"))
                note(str(e))
                expect(f"the child's share says no, not {e.code}", e.code == "budget" and e.limit is not None)
            else:
                raise Failed("a child spends more than its share of 25%")
            expect(f"the child {below.id} is not its parent {parent.id}", below.id != parent.id)
        agent.summarise("LICENSE", 1)
        used = Decimal(parent.state()["remaining"]["run"]["used"])
        row("", "parent: text.summary LICENSE 1", "allow", "ok", "", run_amount(parent.state(), "remaining"))
        expect(f"the parent's ledger holds 0.01 and 0.03 of its own and 0.02 of the child, not {used}", used == Decimal("0.06"))
        receipt = parent.ask("text.count", {"path": "Makefile"})
        parent.settle(receipt, "ok")
    return receipt


def answered(tool: str) -> None:
    """Who said what is in the log, signed as everything is."""
    show(command(tool, "log", "show", "--kind", "resolve", "--dir", str(DIR)))
    found = [json.loads(x) for x in command(tool, "log", "show", "--kind", "resolve", "--json", "--dir", str(DIR)).stdout.splitlines()]
    said = [(e["action"], e["operator"]) for e in found]
    expect(f"the log holds the two answers and who gave them, not {said}", said == [("resume", OPERATOR), ("skip", OPERATOR)])


def demo(build: pathlib.Path) -> None:
    tool, daemon = str(build / "pawl"), Daemon(build / "pawld")
    head("1. A folder with policy, keys and state")
    command(tool, "policy", "check", "examples/agent/policy.yaml")
    DIR.mkdir(mode=0o700)
    shutil.copy("examples/agent/policy.yaml", DIR / "policy.yaml")
    (DIR / "policy.yaml").chmod(0o600)
    show(command(tool, "init", "--dir", str(DIR), "--name", "demo.example/pawl/1"))
    enrol(tool)
    try:
        daemon.start()
        said = pawl.hello(socket=SOCKET)
        say(f"{said['server']} answers at {SOCKET}; policy \"{said['policy']['name']}\", default {said['default']}, watch {said['watch']['state']}")

        head("2. An agent reads, counts and summarises this repository; every call asks first")
        session = pawl.Session(root=".", socket=SOCKET, labels={"run": "demo"})
        with session:
            steps(daemon, session)

            head("3. The part that talks to agents is killed alone; the watcher starts it again")
            before = kept(session)
            daemon.kill_rest()
            after = kept(session)
            say(f"used {run_amount(before, 'used')} before, {run_amount(after, 'used')} after; "
                f"{after['decisions']} decisions, {len(after['reviews'])} review pending")
            expect(f"nothing lost, nothing given back: {before} is {after}", before == after)

            head("4. pawld stops, somebody edits the budgets' rows in SQLite, pawld starts")
            edited_rows(daemon, session)

        head("5. A write waits for a person: one is resumed, another skipped")
        person(tool)

        head("6. An API with nobody there: its breaker opens, tries with one call, and closes")
        breaker()

        head("7. A child session, with a quarter of what its parent has left")
        receipt = child()
        status = daemon.stop()
        expect(f"pawld stops on TERM with status 0, not {status}", status == 0)
    finally:
        daemon.end()

    head("8. Who answered, from the log")
    answered(tool)

    head("9. The log, checked against the last answer the agent was given")
    entry = receipt.log["entry"]
    text = entry[: entry.rindex("\n\n") + 1]
    anchor = f"{receipt.log['seq']}:{hashlib.sha256(text.encode()).hexdigest()}"
    show(command(tool, "log", "verify", "--dir", str(DIR), "--at-least", anchor, want=VERIFY_OK))

    head("10. Every answer judged again, from the log and the policy alone")
    show(command(tool, "log", "replay", "--dir", str(DIR), "--policy", str(DIR / "policy.yaml")))

    head("11. One flipped byte in a copy of it")
    COPY.mkdir(mode=0o700)
    shutil.copytree(DIR / "log", COPY / "log")
    shutil.copy(DIR / "entry.vkey", COPY / "entry.vkey")
    segment = sorted((COPY / "log").glob("journal-*"))[0]
    data = bytearray(segment.read_bytes())
    word = b'"verdict":"deny"'
    at = data.index(word) + word.index(b"deny")
    data[at] ^= 1
    segment.write_bytes(data)
    say(f"{segment}: byte {at}, the d of the first \"deny\", is now {chr(data[at])!r}")
    show(command(tool, "log", "verify", "--dir", str(COPY), want=VERIFY_TAMPERED))

    for name in ("policy.yaml", "state", "log", "entry.vkey"):
        expect(f"{DIR / name} is left behind", (DIR / name).exists())
    expect("entry.vkey is one line", (DIR / "entry.vkey").read_text().count("\n") == 1)

    watch.watched(build)


def main() -> int:
    ap = argparse.ArgumentParser(description="the demo that `make demo` runs")
    ap.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/gcc-plain"), help="folder with pawld and pawl")
    build = ap.parse_args().build
    began = time.monotonic()
    for name in ("pawld", "pawl"):
        if not (build / name).exists():
            say(f"demo: FAILED: there is no {build / name} yet: run `make`")
            return 1
    for old in (DIR, COPY, watch.DIR):
        shutil.rmtree(old, ignore_errors=True)
    try:
        demo(build)
    except (Failed, pawl.PawlError, OSError, subprocess.SubprocessError, AssertionError, LookupError, ValueError) as e:
        say()
        for err in (DIR / "pawld.err", watch.DIR / "pawld.err"):
            for line in err.read_text(errors="replace").splitlines()[-5:] if err.exists() else []:
                say(f"  {err}: {line}")
        say(f"demo: FAILED: {e if isinstance(e, (Failed, pawl.PawlError)) else f'{type(e).__name__}: {e}'}")
        return 1
    say()
    say(f"demo: all as promised, in {time.monotonic() - began:.1f} s. Left in {DIR}/: policy.yaml state/ log/ entry.vkey")
    return 0


if __name__ == "__main__":
    sys.exit(main())
