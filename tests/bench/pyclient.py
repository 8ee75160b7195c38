"""One client of hooks/python, one request in flight: `pyclient.py SOCKET SECONDS`. Prints one line of JSON.

`ask` is comparable with the C rows (one decide); `guard` is what a user of the decorator pays: decide, body, settle.
"""
from __future__ import annotations

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "hooks" / "python"))
import pawl  # noqa: E402


def measure(call, seconds: float) -> dict:
    took = []
    warm = time.perf_counter() + 0.3
    while time.perf_counter() < warm:
        call(-len(took))
        took.append(0)
    n, took = len(took), []
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        t = time.perf_counter_ns()
        call(n + len(took))
        took.append((time.perf_counter_ns() - t) / 1000)
    wall = time.perf_counter() - start
    took.sort()
    return {"p50_us": round(took[len(took) // 2], 1), "p99_us": round(took[len(took) * 99 // 100], 1), "per_second": round(len(took) / wall, 1),
            "answers": len(took)}


def main() -> None:
    session = pawl.Session.open(socket=sys.argv[1])
    seconds = float(sys.argv[2])

    @pawl.guard("web.search", session=session, estimate={"money": "0.000002", "tokens": 12})
    def search(q: str, page: int, lang: str) -> str:
        return "found"

    def ask(page: int) -> None:
        session.ask("web.search", {"q": "how to bound a queue that a peer can grow", "page": page, "lang": "en"},
                    estimate={"money": "0.000002", "tokens": 12})

    out = {"what": "ask", **measure(ask, seconds)}
    out["guard"] = measure(lambda page: search("how to bound a queue that a peer can grow", 10**6 + page, "en"), seconds)
    print(json.dumps(out))
    session.close()


if __name__ == "__main__":
    main()
