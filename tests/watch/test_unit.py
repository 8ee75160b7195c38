"""The unit for systemd, read beside the sources: what its fences shut, the watcher does not write to."""
import re

import live

UNIT = (live.ROOT / "examples" / "systemd" / "pawld.service").read_text()


def values(key):
    return [x for line in re.findall(rf"^{key}=(.*)$", UNIT, re.M) for x in line.split()]


def test_the_watchers_folder_is_open_to_it_and_outlives_a_restart():
    run = re.search(r'#define WATCH_RUN "/run/([^"/]+)"', (live.ROOT / "include" / "pawl" / "watch.h").read_text()).group(1)
    assert values("ProtectSystem") == ["strict"] and run in values("RuntimeDirectory") and values("RuntimeDirectoryPreserve") == ["yes"]
    assert values("RuntimeDirectoryMode") == ["0700"] and values("User") == []  # root's and nobody else's
