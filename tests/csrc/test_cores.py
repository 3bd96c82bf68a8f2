"""How many cores count: hardware threads of one core once, and no more than control groups give."""

import os
from pathlib import Path

import pytest
from hybrid._native import lib

OURS = sorted(os.sched_getaffinity(0))


def count(root: Path, files: dict[str, str]) -> int:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return lib.hyb_core_count(os.fsencode(root))


def siblings(text: str) -> dict[str, str]:
    """What every processor of ours says of the hardware threads of its core."""
    name = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return {name.format(cpu): text for cpu in OURS}


def test_where_nothing_is_said_every_processor_counts(tmp_path: Path) -> None:
    assert count(tmp_path, {}) == len(OURS)


@pytest.mark.parametrize("separator", [",", "-"])
def test_hardware_threads_of_one_core_count_once(tmp_path: Path, separator: str) -> None:
    together = ",".join(map(str, OURS)) if separator == "," else f"{OURS[0]}-{OURS[-1]}"
    assert count(tmp_path, siblings(together + "\n")) == 1


def test_hardware_threads_that_are_not_ours_do_not_count(tmp_path: Path) -> None:
    alone = {name: f"{10_000 + i}\n" for i, name in enumerate(siblings(""))}
    assert count(tmp_path, alone) == len(OURS)


@pytest.mark.parametrize("text", ["", "\n", "x", "-", "0-", "99999999999999999999", ",,,", "5--9"])
def test_nonsense_of_hardware_threads_is_survived(tmp_path: Path, text: str) -> None:
    assert 1 <= count(tmp_path, siblings(text)) <= len(OURS)


QUOTAS = {
    "own group": ({"sys/fs/cgroup/cpu.max": "100000 100000\n"}, 1),
    "rounded up": ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
    "no limit": ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
    "large": ({"sys/fs/cgroup/cpu.max": "9000000000000 1\n"}, None),
    "nonsense": ({"sys/fs/cgroup/cpu.max": "-3 x\n"}, None),
    "by the name of the group": (
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "100000 100000\n"},
        1,
    ),
    "a group around it": (
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "100000 100000\n"},
        1,
    ),
    "another group": (
        {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/c/cpu.max": "100000 100000\n"},
        None,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/a\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
        },
        1,
    ),
    "a long line": ({"proc/self/cgroup": "0::/" + "a/" * 2000}, None),
    "lines of nothing": ({"proc/self/cgroup": "\n:\n::\n0\n"}, None),
}


@pytest.mark.parametrize("case", QUOTAS)
def test_quotas_of_control_groups(tmp_path: Path, case: str) -> None:
    files, expected = QUOTAS[case]
    assert count(tmp_path, files) == (len(OURS) if expected is None else expected)
