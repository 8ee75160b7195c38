"""`pawl policy explain | why | spend`: what a person asks about a policy before, and about a log after.

S13: an answer names rule, counter, limit and what would pass. A16: nothing that an agent or a policy wrote moves the cursor.
"""
from __future__ import annotations

import json
import re
import time

import pytest

import live

POLICY = """pawl: 1
name: asked
default: deny
tools:
  fs.write: {aliases: [write_file], cost: 0.01 USD}
  chat: {}
  plain: {cost: 0.5 USD}
  net.get: {uses: [net]}
rules:
  - {id: workspace, allow: [fs.write], when: {args.path: {under: workspace/}}}
  - {id: elsewhere, review: [fs.write], unless: {args.path: {under: workspace/}}}
  - {id: big, deny: [write_file], when: {args.size: {over: 100}}, sticky: tree}
  - {id: talk, allow: [chat, plain, net.get]}
  - {id: offline, deny: [net]}
budgets:
  run: {per: session, limit: 1 USD, match: [fs.write, plain], then: review, grant_max: 5 USD}
  words: {per: agent, limit: 1000 tokens, match: chat, every: day, zone: Europe/Berlin}
loops:
  repeat: {same: [tool, args], limit: 3}
  cycle: {limit: 3}
breakers:
  web: {match: ["fs.*"], open: {failures: 5, denials: 3}}
...
"""
OK, REVIEW, DENY = 0, 3, 4


@pytest.fixture
def files(folder):
    (folder / "workspace").mkdir()
    (folder / "p.yaml").write_text(POLICY)
    return folder


def ask(person, files, request, *more):
    return person.run("policy", "explain", *more, str(files / "p.yaml"), "-", stdin=json.dumps(request))


# request, exit status, verdict, code, rule, results of rules, budgets
EXPLAIN = [
    ({"tool": "write_file", "args": {"path": "workspace/a", "size": 3}}, OK, "allow", "ok", "workspace",
     {"workspace": "matched", "elsewhere": "no", "big": "no"}, {"run": "0.01"}),
    ({"tool": "fs.write", "args": {"path": "notes/a", "size": 3}}, REVIEW, "review", "rule", "elsewhere",
     {"workspace": "no", "elsewhere": "matched", "big": "no"}, {"run": "0.01"}),
    # outside the root is a condition that failed
    ({"tool": "fs.write", "args": {"path": "/etc/passwd", "size": 3}}, REVIEW, "review", "rule", "elsewhere",
     {"workspace": "no: a condition failed", "elsewhere": "matched by failure", "big": "no"}, {"run": "0.01"}),
    ({"tool": "fs.write", "args": {"path": "workspace/a", "size": 101}}, DENY, "deny", "rule", "big",
     {"workspace": "matched", "elsewhere": "no", "big": "matched"}, {"run": "0.01"}),
    # what is missing goes to the stricter side
    ({"tool": "fs.write", "args": {}}, DENY, "deny", "rule", "big",
     {"workspace": "no: a condition failed", "elsewhere": "matched by failure", "big": "matched by failure"}, {"run": "0.01"}),
    ({"tool": "chat", "kind": "llm", "model": "m", "estimate": {"tokens": {"input": 400, "output": 100}}}, OK, "allow", "ok", "talk",
     {"talk": "matched"}, {"words": "500"}),
    ({"tool": "chat", "kind": "llm", "model": "m"}, DENY, "deny", "budget", "words", {"talk": "matched"}, {"words": None}),
    ({"tool": "chat", "kind": "llm", "model": "m", "estimate": {"tokens": 1001}}, DENY, "deny", "budget", "words", {"talk": "matched"}, {"words": "1001"}),
    ({"tool": "plain", "estimate": {"money": "2"}}, REVIEW, "review", "budget", "run", {"talk": "matched"}, {"run": "2"}),
    ({"tool": "plain", "limits": {"money": "0.1", "repeat": 2}}, DENY, "deny", "budget", "@guard", {"talk": "matched"}, {"run": "0.5", "@guard": "0.5"}),
    ({"tool": "net.get"}, DENY, "deny", "transitive", "offline", {"talk": "matched"}, {}),
    ({"tool": "nobody"}, DENY, "deny", "default", None, {}, {}),
]


@pytest.mark.parametrize("request_, status, verdict, code, rule, rules, budgets", EXPLAIN)
def test_explain(request_, status, verdict, code, rule, rules, budgets, person, files):
    done = ask(person, files, {"root": str(files), **request_}, "--json")
    assert done.returncode == status and not done.stderr, done
    said = json.loads(done.stdout)
    assert (said["verdict"], said["reason"]["code"], said["reason"].get("rule")) == (verdict, code, rule)
    assert {r["id"]: r["result"] for r in said["rules"]} == rules
    assert {b["budget"]: b.get("takes") for b in said["budgets"]} == budgets
    assert bool(said["passes"]) == (verdict != "allow")
    assert [r["id"] for r in said["rules"] if r["decides"]] == ([rule] if rule in rules else [])
    lines = ask(person, files, {"root": str(files), **request_})
    assert lines.returncode == status
    text = lines.stdout.decode()
    assert text.startswith(f"verdict   {verdict}") and all(r in text for r in rules) and said["reason"]["message"] in text


def test_explain_says_which_condition(person, files):
    said = json.loads(ask(person, files, {"root": str(files), "tool": "fs.write", "args": {"path": "workspace/a"}}, "--json").stdout)
    rules = {r["id"]: r for r in said["rules"]}
    assert rules["workspace"]["when"] == [{"test": "args.path under workspace/", "result": "yes"}]
    assert rules["elsewhere"]["unless"] == [{"test": "args.path under workspace/", "result": "yes"}]
    assert rules["big"]["when"] == [{"test": "args.size over 100", "result": "failed"}] and rules["big"]["sticks"] == "tree"
    assert [x["rule"] for x in said["loops"]] == ["repeat", "cycle"] and [x["breaker"] for x in said["breakers"]] == ["web"]
    # without a root a relative path is nowhere
    said = json.loads(ask(person, files, {"tool": "fs.write", "args": {"path": "workspace/a", "size": 1}}, "--json").stdout)
    assert said["verdict"] == "review" and {r["id"]: r["result"] for r in said["rules"]}["elsewhere"] == "matched by failure"


@pytest.mark.parametrize("text, says", [
    ("", b"pawl policy explain"), ("[]", b"object"), ("{}", b"tool"), ('{"tool":5}', b"tool"), ('{"tool":"a b"}', b"tool"),
    ('{"tool":"x","toool":1}', b"toool: unknown field"), ('{"tool":"x","\\u001b[2J":1}', b"\\u{1b}"), ('{"tool":"x","session":"s_1"}', b"session"),
    ('{"tool":"x","estimate":{"money":"1e9"}}', b"estimate.money"), ('{"tool":"x","estimate":{"currency":"EUR"}}', b"estimate.currency"),
    ('{"tool":"x","args":5}', b"args"), ('{"tool":"x","root":"rel"}', b"root"), ('{"tool":"x","tool":"y"}', b"tool"), ('{"tool":"x","kind":"llm"}', b"model"),
    ('{"tool":"x","labels":{"a":1}}', b"labels"),
])
def test_explain_refuses(text, says, person, files):
    done = person.run("policy", "explain", str(files / "p.yaml"), "-", stdin=text)
    assert done.returncode == 1 and says in done.stderr and not done.stdout and b"\x1b" not in done.stderr, done


def test_explain_needs_a_good_policy(person, files):
    (files / "p.yaml").write_text(POLICY.replace("rules:", "rulez:"))
    done = ask(person, files, {"tool": "x"})
    assert done.returncode == 1 and b'unknown key "rulez"' in done.stderr and not done.stdout


def test_check_reads_time_zones(person, files):
    assert ": ok: " in person.ok("policy", "check", str(files / "p.yaml"))


@pytest.mark.parametrize("words", [
    ("policy",), ("policy", "explain"), ("policy", "explain", "x"), ("policy", "explain", "x", "y", "z"), ("policy", "explain", "-q", "x", "y"),
    ("policy", "check", "--json", "x"), ("why",), ("why", "34"), ("why", "d_0"), ("why", "r_3"), ("why", "d_1", "d_2"), ("why", "d_1x"), ("why", "s_0"), ("why", "s_1", "d_1"),
    ("spend", "x"), ("spend", "--by"), ("spend", "--by", "hour"), ("spend", "--no-such"),
])
def test_usage(words, person):
    done = person.run(*words)
    assert done.returncode == 2 and done.stderr and not done.stdout, done


def test_a_card_is_no_decision(person):
    assert b"`pawl review show r_43`, or `pawl why d_43`" in person.run("why", "r_43").stderr


@pytest.mark.parametrize("verb", ["policy", "why", "spend"])
def test_help(verb, person):
    assert f"usage: pawl {verb}" in person.ok(verb, "--help") and verb in person.ok("--help")


@pytest.mark.parametrize("words", [("why", "d_1"), ("why", "s_1"), ("spend",)])
def test_no_log(words, person, folder):
    done = person.run(*words, "--dir", str(folder))
    assert done.returncode == 1 and done.stderr and not done.stdout
    assert person.run(*words, "--dir", str(folder / "nowhere")).returncode == 1


def test_no_folder_to_verify(person, folder):
    done = person.run("log", "verify", "--dir", str(folder / "nowhere"))
    assert done.returncode == 1 and b"nowhere: No such file" in done.stderr, done


# ---- a log that tells something


@pytest.fixture
def told(person, folder):
    """A live pawld in which each way for a call to end has happened, and a person who may answer."""
    with live.Live(POLICY.replace("tools:", "sessions: {lease: 1h}\ntools:"), folder / "d") as d:
        vkey = person.ok("key", "new", "--name", "anna", "--no-passphrase").strip()
        person.ok("operator", "add", "anna", vkey)
        d.start()
        (folder / "workspace").mkdir()
        yield d


def write(s, path, **more):
    return s.decide("fs.write", {"path": path, "size": 1}, **more)


def why(person, decision):
    said = person.json("why", decision, "--json")
    assert said["decision"] == decision and decision in person.ok("why", decision)
    return said


def rows(person, by):
    return {r[by]: r for r in person.json("spend", "--by", by, "--json")["rows"]}


def test_why(told, person, folder):
    s = told.session(root=str(folder))
    ran = write(s, "workspace/a")
    assert why(person, ran["decision"])["settled"] == []  # still open
    assert "not yet; its lease ends at" in person.ok("why", ran["decision"])
    s.settle(ran["decision"], "ok", "0.03")
    said = why(person, ran["decision"])
    assert (said["verdict"], said["reason"]["code"], said["agent"], said["session"]) == ("allow", "ok", "local", s.id)
    assert [(x["outcome"], x["charged"], x["unit"]) for x in said["settled"]] == [("ok", "0.03", "USD")]
    assert [(b["budget"], b["used"], b["takes"], b["limit"]) for b in said["budgets"]] == [("run", "0", "0.01", "1")]

    held = write(s, "/etc/x")
    said = why(person, held["decision"])
    assert said["review"]["review"] == held["review"] and said["review"]["state"] == "pending" and "resume" in said["passes"]
    assert {a["code"] for a in said["review"]["asks"]} == {"rule"} and "settled" not in said
    person.ok("resume", held["review"], "--reason", "looks right")
    again = write(s, "/etc/x")
    assert again["verdict"] == "allow"
    for d in (held, again):
        review = why(person, d["decision"])["review"]
        assert (review["state"], review["operator"], review["reason"], review["used_by"]) == ("resumed and used", "anna", "looks right", again["decision"])
    text = person.ok("why", again["decision"])
    assert "by anna (looks right)" in text and "not yet; its lease ends at" in text

    skipped = write(s, "/etc/y")
    person.ok("skip", skipped["review"])
    no = write(s, "/etc/y")
    said = why(person, no["decision"])
    assert said["reason"]["code"] == "review_skipped" and said["passes"].startswith("other arguments")
    full = s.decide("plain", {}, "5")
    said = why(person, full["decision"])
    assert (said["reason"]["counter"], said["reason"]["limit"], said["reason"]["unit"]) == ("0.04", "1", "USD")
    s.close()
    said = why(person, again["decision"])
    assert [x["outcome"] for x in said["settled"]] == ["expired"] and "the session ended first" in said["settled"][0]["how"]
    s.settle(again["decision"], "ok", "0.02")
    assert [x.get("added") for x in why(person, again["decision"])["settled"]] == [None, "0.01"]

    assert person.run("why", "d_1").returncode == 1  # an entry of another kind
    done = person.run("why", "d_99999")
    assert done.returncode == 1 and b"no decision d_99999" in done.stderr


def test_why_of_a_session(told, person, folder):
    s, other = told.session(root=str(folder), agent="local"), told.session(root=str(folder))
    write(s, "workspace/a")
    name = s.state()["session"]
    s.close()
    lines = person.ok("why", name).splitlines()
    assert len(lines) == 2 and " open " in lines[0] and " close" in lines[1] and all(f"session={name}" in x for x in lines)
    said = person.json("why", name, "--json")
    assert said["session"] == name and [e["body"]["action"] for e in said["entries"]] == ["open", "close"]
    assert [str(e["seq"]) for e in said["entries"]] == [x.split()[0] for x in lines]
    assert other.state()["session"] not in person.ok("why", name)
    done = person.run("why", "s_99999")
    assert done.returncode == 1 and b"no session s_99999" in done.stderr and not done.stdout


def test_why_is_safe_for_a_terminal(told, person, folder):
    """A16"""
    s = told.session(root=str(folder))
    d = s.decide("nobody", {}, call="\u202e\u200bcall\u0085")["decision"]
    done = person.run("why", d)
    assert done.returncode == 0 and b"\\u{202e}\\u{200b}call\\u{85}" in done.stdout
    assert all(0x20 <= c < 0x7f or c == 10 for c in person.run("why", d, "--json").stdout)


def test_spend(told, person, folder):
    a, b = told.session(root=str(folder)), told.session(root=str(folder))
    a.settle(write(a, "workspace/1")["decision"], "ok", "0.25")
    write(a, "workspace/2")  # stays open
    assert a.decide("nobody")["verdict"] == "deny"
    late = write(b, "workspace/1")["decision"]
    paid = b.decide("plain", {"n": 1}, "0.75")["decision"]
    b.settle(paid, "cancelled")
    chat = b.decide("chat", {"q": 1}, kind="llm", model="m", estimate={"tokens": 300})["decision"]
    b.stream.ask(b.message("settle", decision=chat, outcome="ok", cost={"tokens": 120}))

    tools = rows(person, "tool")
    assert {k: (r["calls"], r["open"], r["refused"], r["settled"], r["reserved"], r["tokens"]) for k, r in tools.items()} == {
        "fs.write": (3, 2, 0, "0.25", "0.02", 0), "plain": (1, 0, 0, "0.75", "0", 0), "chat": (1, 0, 0, "0", "0", 120), "nobody": (0, 0, 1, "0", "0", 0)}
    b.close()  # nobody reported: charged what was held
    b.settle(late, "ok", "0.04")  # and later 0.03 more
    by = rows(person, "session")
    assert (by[a.id]["settled"], by[a.id]["reserved"]) == ("0.25", "0.01") and (by[b.id]["settled"], by[b.id]["reserved"]) == ("0.79", "0")
    # the same sums as pawld's own ledger
    run = a.state()["remaining"]["run"]
    assert live.nano(run["used"]) == live.nano(by[a.id]["settled"]) + live.nano(by[a.id]["reserved"])
    agents, days = rows(person, "agent"), rows(person, "day")
    assert agents["local"]["settled"] == "1.04" and agents["local"]["calls"] == 5 and list(agents) == ["local"]
    assert sum(live.nano(r["settled"]) for r in days.values()) == live.nano("1.04")
    assert set(days) <= {time.strftime("%Y-%m-%d", time.gmtime(time.time() - x)) for x in (0, 600)}
    lines = person.ok("spend", "--by", "session").splitlines()
    assert lines[0].split()[-1] == "session" and [x.split()[-1] for x in lines[1:]] == sorted(by, key=lambda x: int(x[2:]))
    lines = person.ok("spend", "--by", "tool").splitlines()  # by name, whatever its length
    names = [x.split()[-1] for x in lines[1:]]
    assert len(names) > 1 and names == sorted(names) != sorted(names, key=lambda x: (len(x), x))
    told.kill()  # files are enough
    assert rows(person, "session") == by


def test_spend_after_a_lease(person, folder):
    policy = POLICY.replace("plain: {cost: 0.5 USD}", "plain: {cost: 0.5 USD, lease: 1s}")
    with live.Live(policy, folder / "d") as d:
        s = d.start().session()
        call = s.decide("plain")["decision"]
        live.until("the lease is over", lambda: not s.state()["open"])
        row = rows(person, "tool")["plain"]
        assert (row["open"], row["settled"], row["reserved"]) == (0, "0.5", "0")
        said = why(person, call)
        assert "nobody reported before the lease ran out" in said["settled"][0]["how"]
        assert s.settle(call, "ok", "0.6")["late"]
        assert rows(person, "tool")["plain"]["settled"] == "0.6"


def test_a_damaged_log_is_no_answer(told, person):
    s = told.session()
    s.decide("nobody")
    s.decide("nobody")
    told.kill()
    segment = told.segments()[0]
    data = bytearray(segment.read_bytes())
    data[data.index(b'"deny"') + 1] ^= 1
    segment.write_bytes(data)
    for words in (("spend",), ("why", "d_2")):
        done = person.run(*words)
        assert done.returncode == 1 and done.stderr and not done.stdout, done




EXAMPLES = sorted((live.ROOT / "examples" / "policies").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_what_an_example_allows_has_a_cost(path, tmp_path):
    """A newcomer's first call of a tool that a rule allows or reviews is not refused because nobody said what it costs."""
    text = path.read_text()
    lists = re.findall(r"(?:allow|review): *\[([^\]]*)\]", text)
    names = {n.strip().strip('"').replace("*", "x") for each in lists for n in each.split(",")}
    assert names
    for name in sorted(names):
        request = tmp_path / "request.json"
        request.write_text(json.dumps({"tool": name, "args": {}}))
        with live.Live(None) as d:
            said = d.pawl("policy", "explain", str(path), str(request))
        assert "cost unknown" not in said.stdout and said.stdout.startswith("verdict"), (name, said.stdout, said.stderr)
