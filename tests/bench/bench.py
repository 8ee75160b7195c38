"""`make bench`: pawld beside its floor, in one run, interleaved. Method and targets: docs/bench.md. Prints tables, writes build/bench.json.

Reports targets as met or missed; the exit status says only whether everything ran. Standard library only.
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]
import big  # noqa: E402
import policy  # noqa: E402
import watch  # noqa: E402

CLIENTS = [1, 2, 8, 32, 64]


# ---- the servers: each makes .socket, runs until stop()

class Floor:
    def __init__(self, build: pathlib.Path, folder: pathlib.Path, threads: int):
        self.name = f"floor, {threads} thread" + "s" * (threads > 1)
        self.mode, self.socket = "--floor", str(folder / f"floor{threads}.sock")
        self.journal = folder / f"floor{threads}.journal"
        self.p = subprocess.Popen([build / "tests/bench/floor", "--threads", str(threads), self.socket, self.journal],
                                  stderr=subprocess.PIPE, text=True)
        line = self.p.stderr.readline()
        if "ready" not in line:
            raise SystemExit(f"bench: {line}")

    def stop(self) -> None:
        self.p.terminate()
        self.p.wait()
        self.journal.unlink()


class Pawld:
    def __init__(self, rules: int, folder: pathlib.Path):
        import live  # reads PAWL_BUILD when imported
        self.name, self.mode = f"pawld, {rules} rules", "--pawld"
        self.live = live.Live(policy.policy(rules), folder / f"p{rules}")
        self.live.start()
        self.socket = self.live.agent

    def pids(self) -> tuple[int, int]:
        return self.live.watcher_pid, self.live.rest_pid

    def stop(self) -> None:
        code = self.live.stop(60)
        if code != 0:
            raise SystemExit(f"bench: pawld ended with {code}:\n" + "\n".join(self.live.lines[-20:]))
        shutil.rmtree(self.live.dir)


# ---- measurements

def load(build: pathlib.Path, server, clients: int, seconds: float) -> dict:
    done = subprocess.run([build / "tests/bench/load", server.mode, server.socket, str(clients), str(seconds), "0.3"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {server.name}, {clients} clients: {done.stderr}")
    return json.loads(done.stdout)


def watch_part(build: pathlib.Path, folder: pathlib.Path, quick: bool) -> dict:
    def load_of(socket: str, clients: int, seconds: float) -> dict:  # of a pawld that watch.py started
        return load(build, argparse.Namespace(mode="--pawld", socket=socket, name=socket), clients, seconds)

    print("the watch:", flush=True)
    got = watch.everything(build, folder, quick, load_of)
    for what, wanted, has, ok in watch.targets(got):
        print(f"  {what}: {has}  (target {wanted}: {'met' if ok else 'missed'})", flush=True)
    return got


def middle(rows: list[dict], key: str) -> float:
    return statistics.median(r[key] for r in rows)


def interleaved(build: pathlib.Path, folder: pathlib.Path, with_pawld: bool, rounds: int, seconds: float) -> list[dict]:
    """For each number of clients fresh servers, then rounds of all servers, every other round in reverse order."""
    table = []
    for clients in CLIENTS:
        servers = [Floor(build, folder, 1), Floor(build, folder, 2)] + ([Pawld(50, folder)] if with_pawld else [])
        try:
            got: list[list[dict]] = [[] for _ in servers]
            for r in range(rounds):
                order = list(enumerate(servers))
                for i, s in order if r % 2 == 0 else reversed(order):
                    got[i].append(load(build, s, clients, seconds))
        finally:
            for s in servers:
                s.stop()
        base = got[1]  # two threads: the shape pawld has
        for i, s in enumerate(servers):
            row = {"server": s.name, "clients": clients, "rounds": got[i]}
            for key in ("p50_us", "p99_us", "per_second", "own_cpu_us", "own_cpu_share"):
                row[key] = middle(got[i], key)
            for key in ("p50_us", "p99_us", "per_second"):
                row[f"{key}_ratio"] = statistics.median(a[key] / b[key] for a, b in zip(got[i], base))
            table.append(row)
            print(f"  {clients:3} clients  {s.name:17} p50 {row['p50_us']:8.0f} us   p99 {row['p99_us']:8.0f} us   {row['per_second']:8.0f}/s   "
                  f"of the floor: p50 x{row['p50_us_ratio']:.2f}  p99 x{row['p99_us_ratio']:.2f}  rate x{row['per_second_ratio']:.2f}", flush=True)
    return table


def python_row(folder: pathlib.Path, seconds: float) -> dict:
    """One client of hooks/python against pawld, in a process of its own."""
    p = Pawld(50, folder)
    try:
        done = subprocess.run([sys.executable, HERE / "pyclient.py", p.socket, str(seconds)], capture_output=True, text=True)
        if done.returncode != 0:
            return {"failed": done.stderr.strip().splitlines()[-1:] or ["no message"]}
        return json.loads(done.stdout)
    finally:
        p.stop()


def memory(pid: int) -> dict:
    got = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        m = re.match(r"(Rss|Pss):\s+(\d+) kB", line)
        if m:
            got[m[1].lower() + "_kib"] = int(m[2])
    return got


def idle(folder: pathlib.Path) -> dict:
    """Resident set after start, then with up to 1,000 connections that have shaken hands and say nothing."""
    import sp
    p = Pawld(50, folder)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    streams = []
    try:
        first = sp.Stream(p.socket)
        time.sleep(1)
        watcher, rest = (memory(pid) for pid in p.pids())
        why = None
        try:
            while len(streams) < 999:  # and the first: beyond 1,000 pawld closes the one that was idle longest
                streams.append(sp.Stream(p.socket, timeout=2))
        except OSError as e:
            why = str(e) or type(e).__name__
        time.sleep(0.5)
        limits = pathlib.Path(f"/proc/{p.pids()[1]}/limits").read_text()
        nofile = int(re.search(r"Max open files\s+(\d+)", limits)[1])
        started = time.monotonic()
        answered = "server" in first.ask({"v": 1, "op": "hello"})
        return {"watcher": watcher, "rest": rest, "sum_rss_kib": watcher["rss_kib"] + rest["rss_kib"],
                "sum_pss_kib": watcher["pss_kib"] + rest["pss_kib"], "connections": 1 + len(streams), "connections_stopped_by": why,
                "nofile": nofile, "with_connections": memory(p.pids()[1]), "still_answers": answered,
                "answer_ms": round((time.monotonic() - started) * 1000, 2)}
    finally:
        for s in streams:
            s.close()
        p.stop()


def micro(build: pathlib.Path, folder: pathlib.Path, quick: bool) -> list[dict]:
    rows = []
    valgrind = shutil.which("valgrind")
    for rules in (50, 1000):
        path = folder / f"micro-{rules}.yaml"
        path.write_text(policy.policy(rules))
        for what, size in (("judge", 100), ("facts", 100), ("facts", 1024), ("facts", 10240), ("rows", 1024), ("rows", 10240)):
            run = [build / "tests/bench/micro", path, what, str(size)]
            done = subprocess.run([*run, "200" if quick else "2000"], capture_output=True, text=True)
            if done.returncode != 0:
                raise SystemExit(f"bench: micro: {done.stderr}")
            row = json.loads(done.stdout)
            row["target_ns"] = 1000 if what == "judge" else 3000 + 3000 * size / 1024
            if valgrind:
                row["instructions"] = instructions(valgrind, run, "judge" if what == "judge" else "facts_of", folder)
            rows.append(row)
            print(f"  {what:5} {rules:5} rules, {size:5} bytes of arguments: {row['ns']:8.0f} ns  (target {row['target_ns']:.0f})"
                  + (f"  {row['instructions']} instructions" if row.get("instructions") else ""), flush=True)
    return rows


def instructions(valgrind: str, run: list, function: str, folder: pathlib.Path) -> int | None:
    """Per call. Two runs, so that what the setup spends in the same function falls out of the difference."""
    totals = []
    for rounds in (1, 3):
        done = subprocess.run([valgrind, "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out", "--collect-atstart=no",
                               f"--toggle-collect={function}", *run, str(rounds)], capture_output=True, text=True)
        m = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not m:
            return None
        totals.append(int(m[1]))
    return (totals[1] - totals[0]) // (2 * 21)  # 21 batches: micro.c


def sync_alone(folder: pathlib.Path) -> dict:
    """pwrite of 700 bytes + fdatasync on a preallocated file: how much of a p50 is the disk."""
    fd = os.open(folder / "sync", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(fd, 0, 1 << 24)
    os.fsync(fd)
    took = []
    for i in range(300):
        t = time.perf_counter_ns()
        os.pwrite(fd, b"x" * 700, i * 700)
        os.fdatasync(fd)
        took.append((time.perf_counter_ns() - t) / 1000)
    os.close(fd)
    (folder / "sync").unlink()
    took.sort()
    return {"p50_us": round(took[150], 1), "p99_us": round(took[297], 1)}


def machine(folder: pathlib.Path) -> dict:
    cpu = next((x.split(":", 1)[1].strip() for x in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "?")
    virtual = "hypervisor" in pathlib.Path("/proc/cpuinfo").read_text()
    fs = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "virtual": virtual, "kernel": platform.release(), "file_system": fs,
            "load_before": os.getloadavg()[0], "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


# ---- the report

def targets(out: dict) -> list[tuple[str, str, str, bool]]:
    rows = []
    for r in out.get("load", []):
        if not r["server"].startswith("pawld"):
            continue
        if r["clients"] == 1:
            x = r["p50_us_ratio"]
            rows.append(("one client, p50", "<= 1.25 x floor", f"{x:.2f} x", x <= 1.25))
        if r["clients"] == 64:
            x, y = r["per_second_ratio"], r["p99_us_ratio"]
            rows.append(("64 clients, throughput", ">= 0.75 x floor", f"{x:.2f} x", x >= 0.75))
            rows.append(("64 clients, p99", "<= 2 x floor", f"{y:.2f} x", y <= 2))
    for r in out.get("micro", []):
        rows.append((f"{r['what']}, {r['rules']} rules, {r['args_bytes']} B", f"<= {r['target_ns'] / 1000:.1f} us", f"{r['ns'] / 1000:.2f} us",
                     r["ns"] <= r["target_ns"]))
    if "idle" in out:
        mib = out["idle"]["sum_rss_kib"] / 1024
        rows.append(("resident, idle, both processes", "<= 12 MiB", f"{mib:.1f} MiB (PSS {out['idle']['sum_pss_kib'] / 1024:.1f})", mib <= 12))
    return rows + big_targets(out) + (watch.targets(out["watch"]) if "watch" in out else [])


def big_targets(out: dict) -> list[tuple[str, str, str, bool]]:
    rows = []
    if r := out.get("restarts"):
        wanted = big.ENTRIES if not out["quick"] else r["entries"]
        rows.append(("rebuild from entry 0", ">= 100000 entries/s", f"{r['rebuild_per_second']} entries/s ({r['log']['entries']} in {r['rebuild_s']:.2f} s)",
                     r["rebuild_per_second"] >= 100_000))
        rows.append((f"start after SIGKILL, {r['entries']} entries, {'a' if r['snapshot'] else 'no'} snapshot", "<= 2 s", f"{r['restart_s']:.2f} s",
                     r["restart_s"] <= 2 and r["entries"] >= wanted))
    if r := out.get("resolves"):
        rows.append(("a resolve reaches who waits, p50", "<= 2 x a decide", f"{r['ratio']:.2f} x ({r['resolve_us']:.0f} us, a decide {r['decide_us']:.0f} us)",
                     r["ratio"] <= 2))
    if m := out.get("memory"):
        s = m["states"]
        rows.append((f"a session with {s['calls']} calls, both states, {s['sessions']} sessions", "<= 3 KiB", f"{s['bytes_per_session']:.0f} B",
                     s["bytes_per_session"] <= 3072))
    return rows


def markdown(out: dict) -> str:
    m = out["machine"]
    lines = [f"Measured {m['date']} on {m['cores']} {'virtual ' if m['virtual'] else ''}cores ({m['cpu']}), Linux {m['kernel']}, {m['file_system']}; "
             f"{'quick run, ' if out['quick'] else ''}{out['rounds']} rounds of {out['seconds']:g} s; load average before: {m['load_before']:.2f}. "
             f"One `pwrite` + `fdatasync` alone: p50 {out['sync']['p50_us']} us, p99 {out['sync']['p99_us']} us.", "",
             "| clients | server | p50 us | p99 us | answers/s | p50 ratio | p99 ratio | rate ratio | generator us/answer |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for r in out.get("load", []):
        lines.append(f"| {r['clients']} | {r['server']} | {r['p50_us']:.0f} | {r['p99_us']:.0f} | {r['per_second']:.0f} | {r['p50_us_ratio']:.2f} | "
                     f"{r['p99_us_ratio']:.2f} | {r['per_second_ratio']:.2f} | {r['own_cpu_us']:.1f} |")
    if p := out.get("python"):
        lines.append("| 1 | pawld, Python client | failed: " + str(p["failed"]) + " | | | | | | |" if "failed" in p else
                     "\n".join(f"| 1 | pawld, Python client, {what} | {r['p50_us']:.0f} | {r['p99_us']:.0f} | {r['per_second']:.0f} | | | | |"
                               for what, r in (("one decide", p), ("decorator: decide, body, settle", p["guard"]))))
    lines += ["", "| target | wanted | got | |", "| --- | --- | --- | --- |"]
    lines += [f"| {a} | {b} | {c} | {'met' if ok else 'missed'} |" for a, b, c, ok in targets(out)]
    for r in out.get("micro", []):
        if r.get("instructions"):
            lines.append(f"| {r['what']}, {r['rules']} rules, {r['args_bytes']} B: instructions | stated | {r['instructions']} | |")
    if i := out.get("idle"):
        stopped = f", stopped by: {i['connections_stopped_by']}" if i["connections_stopped_by"] else ""
        lines.append(f"| idle connections accepted (RLIMIT_NOFILE {i['nofile']}) | stated | {i['connections']} of 1000{stopped}; "
                     f"the rest then holds {i['with_connections']['rss_kib'] / 1024:.1f} MiB and {'answers' if i['still_answers'] else 'does not answer'} | |")
    if out.get("watch", {}).get("skipped"):
        lines.append(watch.line(out["watch"]))
    if m := out.get("memory"):
        lines.append(f"| a session with {m['live']['calls']} calls, growth of a live pawld, {m['live']['sessions']} sessions | stated | "
                     f"{m['live']['bytes_per_session']:.0f} B | |")
    if r := out.get("restarts"):
        lines.append(f"| the log that was read | stated | {r['bytes'] / 2**20:.0f} MiB, {r['log']['sessions']} session entries, {r['log']['decisions']} decisions | |")
    return "\n".join(lines) + "\n"


def fill(doc: pathlib.Path, text: str) -> None:
    old = doc.read_text()
    new, n = re.subn(r"(<!-- bench:begin -->\n).*?(<!-- bench:end -->)", lambda m: m[1] + text + m[2], old, flags=re.S)
    if n != 1:
        raise SystemExit(f"bench: {doc} has no bench:begin … bench:end")
    doc.write_text(new)


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--build", default="build/gcc-plain", type=pathlib.Path)
    ap.add_argument("--quick", action="store_true", help="one short round: does it run?")
    ap.add_argument("--watch-only", action="store_true", help="only what the watch costs, to standard output")
    ap.add_argument("--floor-only", action="store_true", help="without pawld")
    ap.add_argument("--doc", type=pathlib.Path, help="put the tables between the marks in this file, if the machine was quiet")
    o = ap.parse_args()
    build = o.build.resolve()
    os.environ["PAWL_BUILD"] = str(build)
    rounds, seconds = (1, 0.5) if o.quick else (5, 2.0)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=build))
    try:
        out: dict = {"machine": machine(folder), "quick": o.quick, "rounds": rounds, "seconds": seconds, "sync": sync_alone(folder)}
        if o.watch_only:
            print(json.dumps(watch_part(build, folder, o.quick)))
            return 0
        if not o.floor_only:
            print("judge and facts alone:", flush=True)
            out["micro"] = micro(build, folder, o.quick)
            out["idle"] = idle(folder)
            out["python"] = python_row(folder, seconds)
            print("a person's answer, memory for sessions, a long log:", flush=True)
            out["resolves"] = big.resolves(folder, o.quick)
            out["memory"] = big.memory(build, folder, o.quick)
            out["restarts"] = big.restarts(build, folder, o.quick)
            for what, wanted, got, _ in big_targets(out):
                print(f"  {what}: {got}  (target {wanted})", flush=True)
            out["watch"] = watch_part(build, folder, o.quick)
        print("load, medians of rounds; ratios are to the two-thread floor of the same round:", flush=True)
        out["load"] = interleaved(build, folder, not o.floor_only, rounds, seconds)
        text = markdown(out)
        out["targets"] = [dict(zip(("what", "wanted", "got", "met"), t)) for t in targets(out)]
        where = build.parent / "bench.json"
        where.write_text(json.dumps(out, indent=1) + "\n")
        (build.parent / "bench.md").write_text(text)
        busy = out["machine"]["load_before"] > 0.5 * (os.cpu_count() or 1)
        if busy:
            print("\nbench: other work was running here; ratios may do, absolute numbers are not worth keeping", file=sys.stderr)
        if o.doc and not busy:
            fill(o.doc, text)
        print("\n" + text + f"\n{where}")
        return 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
