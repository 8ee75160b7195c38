"""U09, P1, P8, P9: SIGKILL the rest, the watcher or both at random moments under 8 clients, 50 times (PAWL_KILLS shortens).

After each restart: every budget's remaining is what was answered last, or lower; the call that had no answer, asked again with the same
client and call id, gets one answer, and a second asking gets the same bytes. At the end: every answered decision is in the log, once,
under the signed bytes that were handed out, and the log verifies up to the newest of them.
"""
from __future__ import annotations

import collections
import os
import random
import threading
import time
import json

from live import Live, Stream, alive, children, nano, note_hash, until

KILLS = int(os.environ.get("PAWL_KILLS", "50"))
CLIENTS = 8
OFTEN = ("--snapshot-every", "60")  # so that kills fall before, into and behind snapshots
SEED = int(os.environ.get("PAWL_SEED", "0")) or random.randrange(1 << 30)


class Worker(threading.Thread):
    """Decides and settles until told to stop; after a lost answer it waits for the gate and asks the very same again."""

    def __init__(self, d: Live, number: int):
        super().__init__(daemon=True)
        self.d, self.rng = d, random.Random(SEED + number)
        self.session = d.session()
        self.stream: Stream | None = self.session.stream
        self.gate, self.halted = threading.Event(), threading.Event()
        self.gate.set()
        self.quit = False
        self.pending: dict | None = None       # sent, not answered
        self.may_return = 0                    # what the pending settle may give back, nano-units
        self.remaining: int | None = None      # `run`, as answered last
        self.answered: list[tuple[str, str, str, str]] = []   # (call, decision, verdict, signed note)
        self.settled: list[tuple[str, str]] = []              # (decision, signed note)
        self.last_allowed: dict | None = None
        self.failure: str | None = None
        self.repeats = 0

    def next_message(self) -> dict:
        self.may_return = 0
        if self.last_allowed and self.rng.random() < 0.6:
            reply, self.last_allowed = self.last_allowed, None
            spent = self.rng.choice([0.2, 1.0])
            self.may_return = int(10_000_000 * (1 - spent)) if spent < 1 else 0
            return self.session.message("settle", decision=reply["decision"], outcome="ok", cost={"money": f"{0.01 * spent:.4f}"})
        tool = self.rng.choice(["work"] * 6 + ["forbidden", "held", "unknown.tool"])
        return self.session.decide_message(tool, {"n": self.session.calls, "text": "x" * self.rng.randrange(200)}, money="0.01")

    def take(self, asked: dict, raw: bytes) -> None:
        reply = json.loads(raw)
        if "error" in reply:
            raise AssertionError(f"{asked['op']}: {reply['error']}")
        run = reply.get("remaining", {}).get("run")
        if run:
            left = nano(run["remaining"])
            if self.remaining is not None and left > self.remaining + self.may_return:
                raise AssertionError(f"budget rose from {self.remaining} to {left} by {asked}")
            self.remaining = left
        if asked["op"] == "decide":
            self.answered.append((asked["call"], reply["decision"], reply["verdict"], reply["log"]["entry"]))
            if reply["verdict"] == "allow":
                self.last_allowed = reply
        else:
            self.settled.append((reply["decision"], reply["log"]["entry"]))

    def ask_again(self) -> None:
        """The unanswered call, twice: one answer."""
        raw = self.stream.ask_bytes(json.dumps(self.pending).encode())
        again = self.stream.ask_bytes(json.dumps(self.pending).encode())
        if json.loads(raw).get("verdict") != "review" and raw != again:
            raise AssertionError(f"two answers to one call:\n{raw!r}\n{again!r}")
        self.take(self.pending, raw)
        self.pending = None
        self.repeats += 1

    def run(self) -> None:
        try:
            while not self.quit:
                try:
                    if self.stream is None:
                        self.halted.set()
                        self.gate.wait()
                        if self.quit:
                            break
                        self.halted.clear()
                        self.stream = self.session.stream = self.d.door()
                        if self.pending:
                            self.ask_again()
                    self.pending = self.next_message()
                    raw = self.stream.ask_bytes(json.dumps(self.pending).encode())
                    self.take(self.pending, raw)
                    self.pending = None
                except OSError:  # Gone, refused, reset: the daemon died under us
                    if self.stream:
                        self.stream.close()
                    self.stream = None
        except BaseException as e:
            self.failure = f"{type(e).__name__}: {e}"
        self.halted.set()


def strike(d: Live, what: str) -> None:
    """Kills, and sees to it that a new pawld answers."""
    watcher, rest = d.watcher_pid, d.rest_pid
    if what == "both":
        d.kill()
        d.start(*OFTEN)
    elif what == "rest":
        os.kill(rest, 9)
        until("the watcher starts a new rest", lambda: [p for p in children(watcher) if p != rest and alive(p)], 20)
        d.wait_answers(30)
        d.rest_pid = d.status()["pid"]["rest"]
    else:
        d.process.kill()
        d.process.wait()
        until("the rest ends when its watcher is gone", lambda: not alive(rest), 10)
        d.process = None
        d.start(*OFTEN)


def check_budgets(workers: list[Worker], d: Live) -> None:
    for w in workers:
        with d.door() as s:
            state = s.ask(w.session.message("session.state"))
        assert "error" not in state, state
        if w.remaining is None:
            continue
        left = nano(state["remaining"]["run"]["remaining"])
        assert left <= w.remaining + (w.may_return if w.pending else 0), \
            f"seed {SEED}: {w.session.id}: answered {w.remaining}, after the kill {left}; pending {w.pending}"


def test_u09_kills_cost_money_and_never_save_it():
    rng = random.Random(SEED)
    with Live() as d:
        d.start(*OFTEN, seconds=30)
        workers = [Worker(d, i) for i in range(CLIENTS)]
        for w in workers:
            w.start()
        kinds = collections.Counter()
        for n in range(KILLS):
            time.sleep(rng.uniform(0.01, 0.25))
            for w in workers:
                assert w.failure is None, f"seed {SEED}, kill {n}: {w.failure}"
                w.gate.clear()
            what = rng.choice(["rest", "watcher", "both"])
            kinds[what] += 1
            strike(d, what)
            for w in workers:
                assert w.halted.wait(15) and w.failure is None, f"seed {SEED}, kill {n} ({what}): {w.failure}"
            check_budgets(workers, d)
            for w in workers:
                w.gate.set()
        time.sleep(0.2)
        for w in workers:
            w.quit = True
            w.gate.set()
        for w in workers:
            w.join(15)
            assert w.failure is None and not w.is_alive(), f"seed {SEED}: {w.failure}"
        check_budgets(workers, d)
        d.stop()
        check_log(d, workers)
        print(f"seed {SEED}: {dict(kinds)}; {sum(len(w.answered) for w in workers)} decisions answered, "
              f"{sum(w.repeats for w in workers)} asked again after a kill")


def check_log(d: Live, workers: list[Worker]) -> None:
    entries = d.entries()
    by_seq = {e["seq"]: e for e in entries}
    assert [e["seq"] for e in entries] == list(range(len(entries))), "sequence numbers have a hole"
    times_decided = collections.Counter((e["body"]["session"], e["body"]["call"]) for e in entries if e["body"]["kind"] == "decision")
    newest = (-1, "")
    for w in workers:
        for call, decision, verdict, note in w.answered:
            seq, digest = note_hash(note)
            newest = max(newest, (seq, digest))
            assert seq in by_seq, f"seed {SEED}: {decision} was answered and is not in the log"
            assert by_seq[seq]["note"] == note, f"seed {SEED}: the entry of {decision} is not the bytes that were handed out"
            assert by_seq[seq]["body"]["verdict"] == verdict
            if verdict == "allow":
                assert times_decided[w.session.id, call] == 1, f"seed {SEED}: {call} of {w.session.id} decided more than once"
        for decision, note in w.settled:
            seq, digest = note_hash(note)
            newest = max(newest, (seq, digest))
            assert by_seq[seq]["note"] == note, f"seed {SEED}: the settle of {decision} is not in the log as handed out"
    allowed = sum(v == "allow" for w in workers for _, _, v, _ in w.answered)
    assert allowed > KILLS, "too few decisions for the kills to hit anything"
    done = d.verify("--at-least", f"{newest[0]}:{newest[1]}")
    assert done.returncode == 0, f"seed {SEED}: {done.returncode} {done.stdout} {done.stderr}"
    status, said = d.replay()  # P5: what each of these processes answered is what one that sees the log alone answers
    assert status == 0 and said["equal"] > allowed, f"seed {SEED}: {said}"
