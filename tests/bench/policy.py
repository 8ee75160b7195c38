"""The benchmark's policy with N rules: `python3 policy.py 50`. Most rules name other tools, as in a real file; a few look at the call's arguments."""
from __future__ import annotations

import sys

HEAD = """pawl: 1
name: bench-{n}
default: deny
tools:
  web.search: {{aliases: [search, query_web], default_cost: 0.000002 USD, lease: 5m}}
  page.fetch: {{cost: 0.001 USD}}
  fs.write: {{aliases: [write_file]}}
rules:
"""

# What the measured call meets: four rules by its own name, two globs without a literal prefix.
NEAR = [
    "{id: search, allow: [web.search]}",
    "{id: far-pages, deny: [web.search], when: {args.page: {over: 1000000000}}}",
    "{id: secrets, review: [web.search], when: {args.q: {glob: \"*password*\"}}}",
    "{id: language, deny: [web.search], unless: {args.lang: {in: [en, de, fr]}}}",
    "{id: wipe, deny: [\"*.wipe\"]}",
    "{id: admin, deny: [\"*admin*\"]}",
]

TAIL = """budgets:
  run: {per: session, limit: 1000000 USD, floor: 1 USD}
  agent: {per: agent, limit: 1000000 USD}
  all: {per: global, limit: 1000000 USD}
  calls: {per: session, limit: 1000000000 calls}
  tokens: {per: session, limit: 1000000000000 tokens}
loops:
  repeat: {same: [tool, args], limit: 3, window: 50 calls, then: review}
sessions: {open: 1000000, calls: 1000000000, lease: 1h}
limits: {decide: 1000000/s, burst: 1000000}
...
"""


def far(i: int) -> str:
    kind = i % 4
    if kind == 0:
        return f"{{id: read-{i}, allow: [\"svc{i}.read*\", svc{i}.list]}}"
    if kind == 1:
        return f"{{id: drop-{i}, deny: [\"svc{i}.drop*\"]}}"
    if kind == 2:
        return f"{{id: pay-{i}, review: [svc{i}.pay], when: {{args.amount: {{over: 20}}}}}}"
    return f"{{id: small-{i}, allow: [svc{i}.pay, svc{i}.refund], when: {{args.amount: {{below: 20}}, labels.team: {{is: ops}}}}}}"


def policy(n: int) -> str:
    rules = NEAR[:n] + [far(i) for i in range(len(NEAR), n)]
    return HEAD.format(n=n) + "".join(f"  - {r}\n" for r in rules) + TAIL


if __name__ == "__main__":
    sys.stdout.write(policy(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
