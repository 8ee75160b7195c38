"""Another policy comes into force, by HUP or while pawld was down: what was spent stays spent (P2), and what became looser is said (P11)."""
from __future__ import annotations

import os
import signal

import pytest

from live import Live, until

HEAD = """pawl: 1
name: reload-test
default: deny
rules:
  - {id: work, allow: [work]}
  - {id: ask, review: [held, other]}
sessions: {lease: 1h}
"""
SPENT = HEAD + "budgets:\n  run: {per: session, limit: 5 USD}\n...\n"
NAMED = HEAD + "budgets:\n  purse: {per: session, limit: 5 USD}\n...\n"
ADDED = HEAD + "budgets:\n  run: {per: session, limit: 5 USD}\n  purse: {per: agent, limit: 5 USD}\n...\n"
LATER = HEAD + "budgets:\n  purse: {per: session, limit: 5 USD}\n...\n"


def policy_entries(d: Live) -> list[dict]:
    return [e["body"] for e in d.entries() if e["body"]["kind"] in ("policy", "start")]


def put_in_force(d: Live, text: str, how: str) -> None:
    d.write_policy(text)
    if how == "hup":
        old = d.status()["policy"]["hash"]
        os.kill(d.watcher_pid, signal.SIGHUP)
        until("the new policy is in force", lambda: d.status()["policy"]["hash"] != old)
    else:
        (d.stop if how == "restart" else d.kill)()
        d.start()


def again(s, d: Live):
    """The same session on a new stream."""
    s.stream.close()
    s.stream = d.door()
    return s


@pytest.mark.parametrize("how", ["hup", "restart", "kill"])
@pytest.mark.parametrize("text", [NAMED, ADDED], ids=["renamed", "added"])
def test_nothing_spent_comes_back(how, text):
    with Live(SPENT) as d:
        d.start()
        s = d.session()
        first = s.decide("work", {"n": 0}, money="4")
        s.settle(first["decision"], money="4")
        open_call = s.decide("work", {"n": 1}, money="0.9")
        assert open_call["verdict"] == "allow"
        assert s.decide("work", {"n": 2}, money="0.5")["reason"]["code"] == "budget"
        put_in_force(d, text, how)
        again(s, d)
        reply = s.decide("work", {"n": 3}, money="0.5")
        assert reply["verdict"] == "deny" and reply["reason"]["code"] == "budget", reply
        assert reply["remaining"]["purse"]["remaining"] == "0.1", reply
        # the open call settles on the ledger that it holds something of, whatever that is called now
        assert "error" not in s.settle(open_call["decision"], money="0.4")
        reply = s.decide("work", {"n": 4}, money="0.5")
        assert reply["verdict"] == ("allow" if text is NAMED else "deny"), reply
        # and once more from the log alone
        d.kill()
        d.start()
        again(s, d)
        assert s.decide("work", {"n": 5}, money="0.2")["verdict"] == "deny"
        d.stop()
        said = [b for b in policy_entries(d) if b.get("changes")]
        assert len(said) == 1, said
        purse = next(b for b in said[0]["budgets"] if b["id"] == "purse")
        if text is NAMED:
            assert purse["from"] == "run" and said[0]["changes"] == ["changed: budget run is now purse; its spend moves"]
        else:
            assert purse["life"] is True and said[0]["changes"] == ["tightened: budget purse is new, starts at what was spent"]
        assert d.verify().returncode == 10


def test_budget_where_there_was_none_counts_what_was_spent():
    with Live(HEAD + "...\n") as d:
        d.start()
        s = d.session()
        s.settle(s.decide("work", {"n": 0}, money="4")["decision"], money="4.9")
        put_in_force(d, LATER, "hup")
        reply = s.decide("work", {"n": 1}, money="0.5")
        assert reply["reason"]["code"] == "budget", reply
        assert d.session().decide("work", {"n": 1}, money="0.5")["verdict"] == "allow", "another session has spent nothing"


@pytest.mark.parametrize("how", ["hup", "restart"])
def test_loosening_is_said(how):
    with Live(SPENT) as d:
        d.start()
        put_in_force(d, SPENT.replace("limit: 5", "limit: 50").replace("lease: 1h", "lease: 2h"), how)
        line = "loosened: budget run limit 5 -> 50"
        until("the operational log says it", lambda: any(line in x for x in d.lines))
        d.stop()
        assert line in policy_entries(d)[-1]["changes"]
        if how == "hup":
            assert any(c.startswith("loosened: sessions.lease") for c in policy_entries(d)[-1]["changes"])


def test_cards_that_the_new_policy_answers_otherwise_are_closed():
    with Live(SPENT) as d:
        d.start()
        s = d.session()
        held, other = (s.decide(t, {"n": 0}, money="0")["review"] for t in ("held", "other"))
        put_in_force(d, SPENT.replace("[held, other]", "[other]"), "hup")
        until("the card is closed", lambda: any(e["body"]["kind"] == "resolve" for e in d.entries()))
        closed = [e["body"] for e in d.entries() if e["body"]["kind"] == "resolve"]
        assert [(b["card"], b["action"], b["reason"]) for b in closed] == [(held, "close", "policy_changed")], closed
        assert s.decide("other", {"n": 0}, money="0")["review"] == other, "carried over"
        assert s.decide("held", {"n": 0}, money="0")["verdict"] == "deny"


def test_a_file_that_is_not_there_has_no_line():
    with Live(SPENT) as d:
        d.start()
        d.policy.unlink()
        os.kill(d.watcher_pid, signal.SIGHUP)
        until("the refusal is said", lambda: any("the policy stays as it was" in x for x in d.lines))
        said = [x for x in d.lines if "the policy stays as it was" in x]
        assert len(said) == 1 and f"as it was: {d.policy} does not exist" in said[0] and ":0:0" not in said[0], said
        assert ":0:0" not in str(policy_entries(d)[-1]), policy_entries(d)[-1]
