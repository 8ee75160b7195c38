"""The rows that a running pawld leaves, entry by entry, with kills, reloads and shadow mode between, are those that `pawl store rebuild` makes of
the log at once; its ledgers are the numbers of `session.state`. And whatever happens to the file, answers go on and the next start mends it."""
from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat

import pytest

from live import Live, nano, until
from signer import Signer
from sp import Session

RULES = """pawl: 1
name: store-live
currency: USD
default: deny
%(mode)stools:
  work: {lease: 1s}
  fixed: {cost: 0.01 USD, lease: 1s}
  given: {cost: 0.02 USD, refund: true, lease: 1s}
  pay: {lease: 1s}
  flaky: {cost: 0 USD, lease: 1s}
  held: {cost: 0.03 USD, lease: 1s}
  poll: {lease: 1s}
  stamp: {lease: 1s}
  forbidden: {lease: 1s}
  unruled: {lease: 1s}
rules:
  - {id: work, allow: [work, fixed, given, pay, flaky, poll, stamp]}
  - {id: never, deny: [forbidden]}
  - {id: no-eve, deny: [stamp], when: {args.to: {is: eve}}, sticky: tree}
  - {id: no-mallory, deny: [poll], when: {args.to: {is: mallory}}, sticky: agent}
  - {id: ask, review: [held]}
budgets:
  %(run)s: {per: session, limit: 1 USD, match: [work, fixed, given, pay, held], then: review, grant_max: 5 USD}
  all: {per: agent, limit: 1000 USD}
  tokens: {per: session, limit: 100k tokens}
  each: {per: [agent, tool], limit: 100000 calls, every: hour}
loops:
  repeat: {same: [tool, args], limit: 3, window: 50 calls, then: deny}
  cycle: {period: 2..3, limit: 3, window: 50 calls, then: deny}
breakers:
  calls: {match: flaky, per: agent, open: {failures: 2}, cool_down: 1s}
  trees: {match: [flaky, forbidden], per: session, open: {failures: 2, denials: 3}, cool_down: 1h}
reviews: {timeout: 2s}
sessions: {lease: 2s, open: 500, calls: 100000, abort_hold: 1s}
limits: {decide: 100000/s, burst: 100000}
...
"""


def policy(run: str = "run", shadow: bool = False) -> str:
    return RULES % {"run": run, "mode": "mode: shadow\n" if shadow else ""}


POLICY = policy()


def projection(d: Live):
    return d.dir / "state" / "projection.sqlite"


def ask(d: Live, sql: str, *args) -> list:
    db = sqlite3.connect(f"file:{projection(d)}?mode=ro", uri=True, timeout=10)
    try:
        return db.execute(sql, args).fetchall()
    finally:
        db.close()


def tables(d: Live) -> dict[str, list]:
    names = [n for (n,) in ask(d, "SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'snapshot%'")]
    return {n: sorted(ask(d, f"SELECT * FROM {n}"), key=repr) for n in names}


def caught_up(d: Live) -> None:
    """Every entry that is answered has its rows."""
    seq = d.seq()
    until("the rows have caught up", lambda: d.status()["store"]["rows"] >= seq)


def assert_rebuild_says_the_same(d: Live) -> dict[str, list]:
    was = tables(d)
    done = d.pawl("store", "rebuild", "--dir", str(d.dir))
    assert done.returncode == 0, done
    now = tables(d)
    assert was.keys() == now.keys()
    for name in was:
        gone, new = [r for r in was[name] if r not in now[name]], [r for r in now[name] if r not in was[name]]
        assert was[name] == now[name], f"{name}: live alone {gone[:5]}, rebuilt alone {new[:5]}"
    return was


# ---- traffic

class Play:
    def __init__(self, d: Live, seed: int):
        self.d, self.dice = d, random.Random(seed)
        self.anna = Signer("anna").enrol(d)
        self.sessions: list[Session] = []
        self.n = 0

    def start(self) -> None:
        self.d.start("--snapshot-every", "50")
        for s in self.sessions:
            s.stream.close()
            s.stream = self.d.door()

    def open(self, **more) -> Session:
        s = self.d.session(**more)
        self.sessions.append(s)
        return s

    def args(self) -> dict:
        self.n += 1
        return {"n": self.n}

    def order(self, op: str, **fields) -> dict:
        return self.anna.order(self.d, op, **fields)

    def money(self, s: Session) -> None:
        """Settled below, at and above what was held; cancelled; left open; reported twice."""
        for tool, money, charge, outcome in (("work", "0.05", "0.04", "ok"), ("work", "0.05", "0.07", "ok"), ("fixed", None, None, "ok"),
                                             ("given", None, None, "cancelled"), ("pay", "0.01", None, "error"), ("work", "0.02", None, None)):
            got = s.decide(tool, self.args(), money=money, **({"estimate": {"money": money, "tokens": 40}} if money else {}))
            if got.get("verdict") == "allow" and outcome:
                more = {"money": charge} if charge else {}
                s.settle(got["decision"], outcome, **more)

    def late(self, s: Session) -> None:
        """Nobody reported in time, and then somebody does; and once more where nobody ever will."""
        calls = [s.decide("pay", self.args(), money="0.01", limits={"lease": "100ms"}) for _ in range(2)]
        if all(c["verdict"] == "allow" for c in calls):
            until("both have expired", lambda: not {c["decision"] for c in calls} & set(s.state()["open"]))
            assert "error" not in s.settle(calls[0]["decision"], money="0.03")

    def denials(self, s: Session) -> None:
        s.decide("forbidden", self.args())
        s.decide("forbidden", self.args())
        s.decide("stamp", {"to": "eve"})
        s.decide("stamp", {"to": "bob", **self.args()})
        s.decide("unruled", {})

    def loops(self, s: Session) -> None:
        for _ in range(5):
            s.decide("poll", {"same": 1})
        for i in range(8):
            s.decide("poll", {"way": i % 2})

    def breakers(self, s: Session) -> None:
        for _ in range(4):
            got = s.decide("flaky", self.args())
            if got["verdict"] == "allow":
                s.settle(got["decision"], "error")

    def cards(self, s: Session) -> None:
        """One of each end: resumed and claimed, resumed and left, skipped, joined and left to time out; and a grant."""
        for how in ("resume", "left", "skip", "wait"):
            args = self.args()
            got = s.decide("held", args)
            if got["verdict"] != "review":
                continue
            card = got["review"]
            s.decide("held", args)
            if how == "wait":
                continue
            assert "error" not in self.order("review.resolve", review=card, action="skip" if how == "skip" else "resume", reason=how)
            if how == "resume":
                s.stream.ask(s.message("claim", review=card, client=s.client, call=f"claim-{self.n}", tool="held", args=args))
        args = self.args()
        got = s.decide("work", args, money="1.5")
        if got["verdict"] == "review":
            self.order("review.resolve", review=got["review"], action="resume", reason="more")
            got = s.decide("work", args, money="1.5")
            if got["verdict"] == "allow":
                s.settle(got["decision"], money="1.2")

    def abort(self) -> None:
        s = self.open()
        child = self.open(parent=s.id, parent_token=s.token)
        child.decide("work", self.args(), money="0.1")
        self.breakers(child)
        got = s.decide("held", self.args())
        if got["verdict"] == "review" and self.dice.random() < 0.5:
            assert "error" not in self.order("review.resolve", review=got["review"], action="abort", reason="stop it", tree=True)
        else:
            assert "error" not in self.order("session.abort", session=s.id, reason="stop it", tree=True)
        self.sessions = [x for x in self.sessions if x not in (s, child)]
        until("the agent may open sessions again", self.may_open)

    def may_open(self) -> bool:
        with self.d.door() as stream:
            got = stream.ask({"v": 1, "op": "session.open", "agent": "local"})
        return "error" not in got  # left alone: it goes stale

    def round(self) -> None:
        s = self.open()
        steps = [self.money, self.denials, self.loops, self.breakers, self.cards, self.late]
        self.dice.shuffle(steps)
        for step in steps:
            step(s)
        self.order("breaker.reset", breaker="calls", owner="local", reason="mended")
        self.abort()
        if self.dice.random() < 0.5:
            s.close()
            self.sessions.remove(s)

    def reload(self, text: str, ordered: bool) -> None:
        self.d.write_policy(text)
        if ordered:
            assert self.order("policy.reload", reason="tried").get("loaded") is True
            return
        old = self.d.status()["policy"]["hash"]
        os.kill(self.d.watcher_pid, signal.SIGHUP)
        until("the new policy is in force", lambda: self.d.status()["policy"]["hash"] != old)

    def end(self, how: str) -> None:
        if how == "stop":
            self.d.stop()
        elif how == "kill":
            self.d.kill()
        else:
            old = self.d.rest_pid
            os.kill(old, signal.SIGKILL)
            self.d.wait_answers()
            until("the rest is another one", lambda: self.d.status()["pid"]["rest"] != old)
            self.d.rest_pid = self.d.status()["pid"]["rest"]
            for s in self.sessions:
                s.stream.close()
                s.stream = self.d.door()
            return
        self.start()


def assert_ledgers(p: Play) -> int:
    """What the table says of each live session's ledgers is what pawld says of them."""
    seen = 0
    for s in p.sessions:
        state = s.state()
        if "error" in state or state["ended"]:
            continue
        caught_up(p.d)
        number = int(s.id[2:])
        for name, told in state["remaining"].items():
            rows = ask(p.d, "SELECT unit, spent + reserved, granted FROM ledger WHERE budget=? AND session IN (0, ?) AND (owner='' OR owner='local') AND tool=''",
                       name, number)
            if not rows:  # in reach, and nothing was ever drawn from it
                assert nano(str(told["used"])) == 0, (name, told)
                continue
            assert len(rows) == 1, (name, rows)
            unit, used, _ = rows[0]
            assert used == (nano(told["used"]) if unit == "money" else int(told["used"])), (name, told, rows)
            seen += used > 0
    return seen


@pytest.mark.parametrize("seed", [int(os.environ["PAWL_SEED"])] if "PAWL_SEED" in os.environ else [1, 2])
def test_live_rows_are_those_of_a_rebuild(seed):
    with Live(POLICY) as d:
        p = Play(d, seed)
        p.start()
        for text, ordered, end in ((None, False, "kill"), (policy("purse"), True, "rest"), (policy("purse", shadow=True), False, "kill"),
                                   (policy("purse", shadow=True).replace("limit: 1 USD", "limit: 2 USD"), True, "stop"), (policy("purse"), True, "rest"),
                                   (policy("run"), False, "kill")):
            if text:
                p.reload(text, ordered)
            p.round()
            p.end(end)
            live = p.open()
            p.money(live)
            assert assert_ledgers(p) > 0
        d.write_policy(policy("run", shadow=True))  # a switch by a start
        p.end("stop")
        p.round()
        d.write_policy(policy("run").replace("default: deny", "default: no"))
        assert p.order("policy.reload", reason="a slip").get("loaded") is not True
        d.write_policy(policy("run"))
        p.end("kill")
        p.round()
        until("a session goes stale", lambda: ask(d, "SELECT 1 FROM session WHERE ended='stale'"))
        if seed % 2:
            until("all do, and cards time out", lambda: d.status()["sessions"]["live"] == 0, 20)
        d.stop()
        rows = assert_rebuild_says_the_same(d)
        columns = {r[1]: i for i, r in enumerate(ask(d, "PRAGMA table_info(review)"))}
        assert {"spent", "skipped", "closed", "timeout"} <= {r[columns["state"]] for r in rows["review"]}
        assert dict(ask(d, "SELECT ended, count(*) FROM session GROUP BY 1")).keys() >= {"abort", "close", "stale"}
        assert {w for (w,) in ask(d, "SELECT DISTINCT action FROM answer")} >= {"resume", "skip", "abort_session", "reset", "enroll", "reload"}
        assert ask(d, "SELECT count(*) FROM decision WHERE would_verdict IS NOT NULL")[0][0] > 10
        assert ask(d, "SELECT count(*) FROM denial WHERE would") == [(0,)]
        assert ask(d, "SELECT count(*) FROM would_by_rule WHERE rule='never'")[0][0] > 0
        assert ask(d, "SELECT count(*) FROM budget_grant")[0][0] > 0
        assert {w for (w,) in ask(d, "SELECT DISTINCT what FROM loss")} >= {"reservation_expired", "late_settle"}
        assert [m for (m,) in ask(d, "SELECT DISTINCT mode FROM policy_change WHERE mode IS NOT NULL ORDER BY 1")] == ["enforce", "shadow"]
        d.start()  # and pawld goes on from the rebuilt file
        caught_up(d)
        d.stop()
        assert_rebuild_says_the_same(d)


def test_shadow_rows_while_it_runs():
    """Marked `would` as session.state marks them, and gone with the switch."""
    with Live(policy(shadow=True)) as d:
        p = Play(d, 1)
        p.start()
        s = p.open()
        p.denials(s)
        p.breakers(s)
        caught_up(d)
        told = s.state()
        assert told["denials"] and all(x["would"] for x in told["denials"]) and all(x["would"] for x in told["breakers"])
        assert sorted(ask(d, "SELECT tool, rule, would FROM denial")) == sorted((x["tool"], x["rule"], 1) for x in told["denials"])
        assert {b for b, in ask(d, "SELECT breaker FROM breakers WHERE would")} == {x["breaker"] for x in told["breakers"]} != set()
        p.reload(policy(), True)
        caught_up(d)
        assert ask(d, "SELECT * FROM denial") == ask(d, "SELECT * FROM breaker") == []


# ---- whose file

def test_nobody_else_reads_it():
    with Live(POLICY) as d:
        p = Play(d, 1)
        p.start()
        p.money(p.open())
        caught_up(d)
        status = d.status()
        assert status["store"]["problem"] is None
        assert status["probes"]["seccomp"]["state"] == "on" and status["probes"]["landlock"]["state"] in ("on", "partial"), status["probes"]
        assert stat.S_IMODE((d.dir / "state").stat().st_mode) == 0o700
        names = {f.name: f for f in (d.dir / "state").glob("projection.sqlite*")}
        assert names.keys() == {f"projection.sqlite{x}" for x in ("", "-wal", "-shm", "-lock")}
        assert {n: oct(stat.S_IMODE(f.stat().st_mode)) for n, f in names.items()} == dict.fromkeys(names, "0o600")
        assert names["projection.sqlite-wal"].stat().st_size > 0
        assert ask(d, "PRAGMA journal_mode") == [("wal",)]


def works(p: Play) -> None:
    s = p.open()
    for _ in range(5):
        got = s.decide("work", p.args(), money="0.01")
        assert got["verdict"] == "allow" and "error" not in s.settle(got["decision"], money="0.01")


def test_deleted_while_it_runs():
    """pawld sees that its file is gone, says so and makes it anew; what was answered meanwhile is all there."""
    with Live(POLICY) as d:
        p = Play(d, 1)
        p.start()
        works(p)
        caught_up(d)
        for f in (d.dir / "state").glob("projection.sqlite*"):
            if not f.name.endswith("-lock"):
                f.unlink()
        works(p)
        until("status tells", lambda: d.status()["store"]["problem"])
        until("it is made anew, though it is never quiet", lambda: works(p) or d.status()["store"]["problem"] is None, 20)
        caught_up(d)
        assert ask(d, "SELECT count(*) FROM settlement") == [(p.n,)]
        d.stop()
        assert_rebuild_says_the_same(d)


def test_a_folder_that_cannot_be_written():
    """What is open already is written on; what is gone cannot be made, which status tells; given back, it is made without a new start."""
    with Live(POLICY) as d:
        p = Play(d, 1)
        p.start()
        works(p)
        caught_up(d)
        (d.dir / "state").chmod(0o700 & ~0o200)
        try:
            works(p)
            caught_up(d)
            assert d.status()["store"]["problem"] is None
            if os.geteuid() != 0:  # nobody else can delete there now
                return
            for f in (d.dir / "state").glob("projection.sqlite*"):
                if not f.name.endswith("-lock"):
                    f.unlink()
            until("status tells", lambda: works(p) or "denied" in (d.status()["store"]["problem"] or ""), 20)
        finally:
            (d.dir / "state").chmod(0o700)
        until("it is made", lambda: works(p) or d.status()["store"]["problem"] is None, 20)
        caught_up(d)
        d.stop()
        assert_rebuild_says_the_same(d)


def test_it_cannot_be_made():
    """Something that is no file of pawld's stands in its place: answers go on, status tells, and the next start without it mends it."""
    with Live(POLICY) as d:
        p = Play(d, 1)
        d.start()
        d.stop()
        for f in (d.dir / "state").glob("projection.sqlite*"):
            f.unlink()
        projection(d).mkdir()
        p.start()
        works(p)
        assert until("status tells", lambda: d.status()["store"]["problem"])
        works(p)
        d.stop()
        projection(d).rmdir()
        p.start()
        caught_up(d)
        assert d.status()["store"]["problem"] is None
        d.stop()
        assert_rebuild_says_the_same(d)


def test_a_reader_that_stays_stops_nobody():
    with Live(POLICY) as d:
        p = Play(d, 1)
        p.start()
        works(p)
        caught_up(d)
        db = sqlite3.connect(f"file:{projection(d)}?mode=ro", uri=True, isolation_level=None)
        db.execute("BEGIN")
        before = db.execute("SELECT count(*) FROM decision").fetchone()
        for _ in range(20):
            works(p)
        caught_up(d)
        assert d.status()["store"]["problem"] is None
        assert db.execute("SELECT count(*) FROM decision").fetchone() == before
        assert ask(d, "SELECT count(*) FROM decision") == [(105,)]
        assert d.stop() == 0
        db.execute("COMMIT")
        db.close()
        assert_rebuild_says_the_same(d)
