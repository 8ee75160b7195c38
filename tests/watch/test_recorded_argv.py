"""U12: what programs were started with goes through the redaction, and a policy in reach of what it judges is refused at the door."""
from __future__ import annotations

import json

import pytest

import live
from test_door import door, error, wait_end
from scripted_launcher import Child, policy

SCRIPT = "/bin/echo --password hunter2-in-argv plain-word-of-argv; /usr/bin/env GH_TOKEN=hunter3-in-argv /bin/true"
SECRETS = [b"hunter2-in-argv", b"hunter3-in-argv"]


def everything(d: live.Live) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(d.dir.rglob("*")) if p.is_file())


@pytest.mark.parametrize("how", ["digest", "redacted", "full"])
def test_argv(kernel, how):
    with live.Live(policy("exec: log", f"log: {{record_args: {how}}}\n")) as d, Child(SCRIPT) as child:
        d.start()
        with door(d) as c:
            c.run(child)
            child.release()
            child.wait()
            wait_end(d)
        for where in (everything(d), (d.kill(), everything(d))[1]):
            assert [s in where for s in SECRETS] == [how == "full"] * 2
            assert (b"plain-word-of-argv" in where) == (how != "digest")
        shown = d.pawl("log", "show", "--dir", str(d.dir), "--kind", "watch", "--args", "--json").stdout.splitlines()
        kept = [argv for r in map(json.loads, shown) if "recorded" in r for argv in json.loads(r["args"])]
        hidden = "hunter2-in-argv" if how == "full" else "[redacted]"
        assert (["/bin/echo", "--password", hidden, "plain-word-of-argv"] in kept) == (how != "digest"), kept
        assert len(kept) == sum(len(r["programs"]) for r in map(json.loads, shown) if r.get("action") == "execs") or how == "digest"


def test_a_root_that_holds_the_policy():
    with live.Live(policy("writes_under: [w]")) as d, Child("true") as child:
        (d.dir / "w").mkdir()
        d.start()
        with door(d) as c:
            got = c.run(child, root=str(d.dir), allow_degraded=True)
            assert "error" not in got or got["error"]["field"] != "root", got
    with live.Live(policy("writes_under: [.]")) as d, Child("true") as child:
        d.start()
        with door(d) as c:
            got = c.run(child, root=str(d.dir), allow_degraded=True)
            assert error(got) == ("malformed", "root") and "holds the policy file" in got["error"]["message"]
