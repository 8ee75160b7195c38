"""A Debian source package for tests and the benchmark: somebody else's configure and make. Fetched once with a private apt configuration that knows deb-src,
which machines seldom do; kept below build/foreign/. Nothing of the machine's own apt is changed, and no root is needed."""
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

from live import ROOT

PACKAGE = "hello"
KEEP = ROOT / "build" / "foreign"


def sources() -> str:
    """deb-src lines for the first Debian archive that apt knows here."""
    for path in [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]:
        text = path.read_text() if path.is_file() else ""
        if path.suffix == ".sources":
            for part in re.split(r"\n\s*\n", text):
                field = dict(re.findall(r"(?m)^([A-Za-z-]+):[ \t]*(.*)$", part))
                if "debian" in field.get("URIs", "") and "security" not in field["URIs"]:
                    signed = f"[signed-by={field['Signed-By']}] " if field.get("Signed-By", "").startswith("/") else ""
                    return f"deb-src {signed}{field['URIs'].split()[0]} {field['Suites'].split()[0]} main\n"
        for line in text.splitlines():
            m = re.match(r"deb\s+(\[[^]]*\]\s+)?(\S*debian\S*)\s+(\S+)\s", line)
            if m and "security" not in m[2]:
                return f"deb-src {m[1] or ''}{m[2]} {m[3]} main\n"
    raise RuntimeError("no Debian archive among apt's sources")


def tarball() -> pathlib.Path:
    """The package as its authors released it. RuntimeError, with what apt said, where it cannot be had."""
    found = sorted(KEEP.glob(f"{PACKAGE}_*.orig.tar.*z"))
    if found:
        return found[0]
    work = KEEP / "work"
    shutil.rmtree(work, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial", "got"):
        (work / folder).mkdir(parents=True)
    (work / "sources.list").write_text(sources())
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::SourceList={work}/sources.list", "-o", "Dir::Etc::SourceParts=-", "-o", f"Dir::State::Lists={work}/lists",
           "-o", f"Dir::Cache={work}/cache", "-o", "APT::Sandbox::User=", "-o", "Acquire::Languages=none"]
    for words in (["update"], ["source", "--download-only", PACKAGE]):
        done = subprocess.run([*apt, *words], cwd=work / "got", capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"apt-get {words[0]}: {done.stderr[-500:]}")
    got = sorted((work / "got").glob("*.orig.tar.*z"))
    if not got:
        raise RuntimeError(f"apt-get source brought no .orig.tar: {[p.name for p in (work / 'got').iterdir()]}")
    kept = got[0].rename(KEEP / got[0].name)
    shutil.rmtree(work)
    return kept


def unpack(folder: pathlib.Path) -> pathlib.Path:
    """The package's folder, fresh, below this one."""
    subprocess.run(["tar", "-xf", tarball(), "-C", folder], check=True)
    return next(p for p in folder.iterdir() if p.is_dir() and p.name.startswith(PACKAGE))
