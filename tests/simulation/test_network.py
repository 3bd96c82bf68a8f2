"""The alpha-beta model by levels: its formulas, its files, and what is measured."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from hybrid.errors import ArgumentError
from hybrid.simulation.network import (
    ASSUMED,
    Level,
    Network,
    level_of,
    measured_levels,
    read_levels,
    write_levels,
)

CORE = Level(alpha=100e-6, rates=((1.0, 1e8),), message=4e-3, compare=5e-5)
SOCKET = Level(alpha=10e-6, rates=((1.0, 1e9),), message=1e-4, compare=2e-5)
HOST = Level(alpha=50e-6, rates=((1.0, 5e8),), message=3e-4, compare=3e-5)
LEVELS = {"core": CORE, "socket": SOCKET, "host": HOST}


def on(ranks: int, per_host: int = 8, cores: int = 8, threads: int = 1) -> Network:
    return Network(
        ranks=ranks,
        ranks_per_host=per_host,
        cores_per_host=cores,
        threads=threads,
        levels=LEVELS,
    )


def test_a_sum_takes_the_time_of_the_formula() -> None:
    """2 (n - 1) / n of its bytes, and alpha log2 n for each of its two parts."""
    n, nbytes = 4, 1 << 20
    wanted = 2 * 10e-6 * 2 + 2 * (n - 1) / n * nbytes / 1e9
    assert on(n).seconds("all_reduce", nbytes, range(n)) == pytest.approx(wanted)
    parts = on(n).seconds("all_to_all", nbytes, range(n))
    parts += on(n).seconds("all_gather", nbytes // n, range(n))
    assert parts == pytest.approx(wanted)
    small = 10e-6 * 2 + (n - 1) * 1024 / 1e9
    assert on(n).seconds("all_reduce", 1024, range(n)) == pytest.approx(small)


def test_hosts_share_their_links() -> None:
    """Two hosts of eight: a block crosses a link once, parts are of each rank."""
    network, b = on(16), 1 << 20
    latency = 10e-6 * 3 + 50e-6
    near, far = 7 * b / 1e9, 8 * b / 5e8
    assert network.seconds("all_gather", b, range(16)) == pytest.approx(latency + near + far)
    near, far = b * 7 / 16 / 1e9, 8 * b * 8 / 16 / 5e8
    assert network.seconds("all_to_all", b, range(16)) == pytest.approx(latency + near + far)
    one_each = network.seconds("all_gather", b, (0, 8))  # of two hosts
    assert one_each == pytest.approx(50e-6 + b / 5e8)
    assert network.seconds("broadcast", b, (0, 1)) == pytest.approx(10e-6 + b / 1e9)
    assert network.seconds("barrier", 0, range(16)) == pytest.approx(latency)


def test_messages_and_comparisons() -> None:
    assert on(16).seconds("send", 1000, (0, 1)) == pytest.approx(1e-4 + 1e-6)
    assert on(16).seconds("recv", 1000, (0, 8)) == pytest.approx(3e-4 + 2e-6)
    assert on(16).seconds("compare", 0, range(16)) == pytest.approx(7 * 2e-5 + 8 * 3e-5)
    assert on(16).seconds("agree", 0, range(16)) == on(16).seconds("all_gather", 9, (3,)) == 0


def test_ranks_that_share_cores() -> None:
    crowded = on(4, per_host=4, cores=2)
    assert (crowded.slowdown, crowded.inside) == (2.0, "core")
    assert crowded.seconds("barrier", 0, range(4)) == pytest.approx(200e-6)
    assert (on(4).slowdown, on(4).inside) == (1.0, "socket")
    assert on(4, cores=8, threads=4).slowdown == 2.0
    assert on(4096, per_host=64, cores=64).slowdown == 1.0


def test_rates_go_by_size() -> None:
    level = Level(0.0, ((1e3, 1e8), (1e5, 1e10)), 0.0, 0.0)
    assert level.rate(10) == 1e8 and level.rate(1e9) == 1e10
    assert level.rate(1e4) == pytest.approx(1e9)
    assert level.seconds(0) == 0 and level.seconds(1e4) == pytest.approx(1e-5)


def test_a_level_of_measurements() -> None:
    rows = [
        ("all_gather", 64, 1e-5), ("all_to_all", 64, 3e-5), ("all_gather", 4096, 2e-5),
        ("all_gather", 1 << 20, 1e-3), ("all_to_all", 1 << 20, 1.04e-3),
        ("message", 64, 1e-4), ("compare", 0, 5e-5),
    ]  # fmt: skip
    found = level_of(rows, 4, "here")
    assert found.alpha == pytest.approx(1e-5)  # of log2 4 = 2
    assert found.rates == ((1 << 20, pytest.approx((1 << 20) / 1e-3)),)
    assert (found.message, found.compare, found.source) == (1e-4, 5e-5, "here")


def test_files_of_networks(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    write_levels(path, LEVELS)
    assert read_levels(path) == LEVELS
    path.write_text('{"host": {"alpha": 1e-6, "rates": [[10, 2e9], [1, 1e9]]}}')
    found = read_levels(path)
    assert found["socket"] == ASSUMED["socket"]
    assert found["host"].rates == ((1.0, 1e9), (10.0, 2e9))
    assert found["host"].source == "from network.json"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "it is no JSON of levels"),
        ("[]", "it is no JSON of levels"),
        ('{"disk": {"alpha": 1, "rates": [[1, 1]]}}', "'disk' is not as it should be"),
        ('{"host": {"alpha": -1, "rates": [[1, 1]]}}', "'host' is not as it should be"),
        ('{"host": {"alpha": 1, "rates": []}}', "'host' is not as it should be"),
        ('{"host": {"alpha": 1, "rates": [[1, 0]]}}', "'host' is not as it should be"),
        ('{"host": 3}', "'host' is not as it should be"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "network.json"
    path.write_text(text)
    with pytest.raises(ArgumentError) as error:
        read_levels(path)
    assert str(error.value) == (
        f"{path} has no network: {fault}\n"
        'Fix: write {"host": {"alpha": seconds, "rates": [[bytes, bytes per second], ...]}, ...}, '
        "with levels core, socket and host; or name a file that is not there: it is measured then."
    )


def test_without_mpi_all_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert measured_levels(2) == ASSUMED


@pytest.mark.nightly
def test_this_machine_is_measured() -> None:
    found = measured_levels(2)
    for name in ("core", "socket"):
        level = found[name]
        assert 1e-7 < level.alpha < 0.1 and level.source.startswith("measured here, ")
        assert all(1e5 < rate < 1e12 for _, rate in level.rates)
        assert math.isfinite(level.message) and level.compare > 0
    assert found["host"].alpha == ASSUMED["host"].alpha
