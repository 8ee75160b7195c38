"""A small agent: a scripted planner, real tools on real files, and pawl in front of every tool. No network, no model.

Each tool is an ordinary function with one line above it. What the planner wants is a list of steps, so that the same run can be
shown and tested again and again; an agent with a model in it would fill that list as it goes.

    PAWL_SOCKET=…/agent.sock PYTHONPATH=hooks/python python3 examples/agent/agent.py [FOLDER]
"""
from __future__ import annotations

import collections
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pawl

# ---- tools ----


@pawl.guard(tool="fs.list")
def list_files(path: str) -> list[str]:
    return sorted(p.name for p in pathlib.Path(path).iterdir())


@pawl.guard(tool="fs.read")
def read(path: str) -> str:
    during_read(path)
    return pathlib.Path(path).read_text(encoding="utf-8")


@pawl.guard(tool="text.count")
def count(path: str) -> dict[str, int]:
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return {"lines": text.count("\n"), "words": len(text.split()), "bytes": len(text.encode())}


@pawl.guard(tool="text.summary", estimate="0.05", cost=lambda result: "0.03")
def summarise(path: str, sentences: int) -> str:
    """The sentences whose words are the file's most frequent ones: what a summary was before there were models."""
    text = re.sub(r"\s+", " ", pathlib.Path(path).read_text(encoding="utf-8"))
    weight = collections.Counter(w for w in re.findall(r"[a-z]{5,}", text.lower()))
    parts = re.split(r"(?<=[.:]) ", text)
    best = sorted(parts, key=lambda s: -sum(weight[w] for w in set(re.findall(r"[a-z]{5,}", s.lower()))))[:sentences]
    return " ".join(s for s in parts if s in best)


@pawl.guard(tool="mail.send")
def send_mail(to: str, subject: str) -> None:
    raise AssertionError("the demo never gets here: nobody has approved it")


@pawl.guard(tool="fs.delete")
def delete(path: str) -> None:
    raise AssertionError(f"the demo never gets here: {path} would be gone")


@pawl.guard(tool="repo.tidy")
def tidy(path: str) -> None:
    raise AssertionError(f"the demo never gets here: it would delete in {path}")


@pawl.guard(tool="fs.write", wait="20s")
def write(path: str, text: str) -> int:
    """A person looks first, and is waited for. Adds at the end, so that a body which ran twice would show."""
    with pathlib.Path(path).open("a", encoding="utf-8") as f:
        return f.write(text)


@pawl.guard(tool="shell.run", estimate="0.01")
def shell(command: str) -> None:
    raise AssertionError(f"the demo never gets here: {command!r} would have run")


def during_read(path: str) -> None:
    """Called while a read is under way; the demo puts its kill here."""


# ---- planner ----


class Step(NamedTuple):
    tool: Callable[..., Any]
    args: dict[str, Any]
    shown: str


class Outcome(NamedTuple):
    step: Step
    verdict: str  # allow, review, deny, or none: no verdict could be had
    refusal: pawl.PawlError | None
    result: Any


def plan(extra: str) -> list[Step]:
    """Reads, counts and summarises; then what goes wrong when nobody watches."""
    def step(tool: Callable[..., Any], **args: Any) -> Step:
        names = {list_files: "fs.list", read: "fs.read", count: "text.count", summarise: "text.summary", send_mail: "mail.send",
                 delete: "fs.delete", tidy: "repo.tidy", shell: "shell.run"}
        return Step(tool, args, f"{names[tool]} {' '.join(str(v) for v in args.values())}")

    return [
        step(list_files, path="docs"),
        step(read, path="README.md"),
        step(count, path="README.md"),
        step(read, path=extra),                       # pawld is killed while this runs
        step(summarise, path=extra, sentences=2),
        step(read, path="README.md"),
        step(read, path="README.md"),
        step(read, path="README.md"),                 # the fourth time: it goes in circles
        step(send_mail, to="me@example.com", subject="summary"),
        step(shell, command="curl example.com"),      # nobody has spoken of it
        step(read, path="/etc/passwd"),               # outside its folder
        step(delete, path="README.md"),               # a rule says never
        step(tidy, path="docs"),                      # allowed, were it not made of what was just denied
        *[step(summarise, path="LICENSE", sentences=n) for n in range(1, 6)],  # until the money is gone
        step(count, path="LICENSE"),                  # something small still fits
    ]


def run(steps: list[Step]) -> Iterator[Outcome]:
    """One step after the other. A refusal is an answer to go on with, as it is for a model."""
    for step in steps:
        try:
            yield Outcome(step, "allow", None, step.tool(**step.args))
        except pawl.ReviewPending as e:
            yield Outcome(step, "review", e, None)
        except pawl.Denied as e:
            yield Outcome(step, "deny", e, None)
        except pawl.PawlError as e:
            yield Outcome(step, "none", e, None)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    with pawl.Session(root=root):
        for outcome in run(plan("docs/wire.md")):
            print(f"{outcome.verdict:7} {outcome.step.shown}" + (f"\n        {outcome.refusal}" if outcome.refusal else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
