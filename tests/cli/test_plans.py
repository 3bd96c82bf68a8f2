"""``hybrid plans``: what it shows of kept plans, and that it takes them away."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid import config
from hybrid.cli.app import build


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One with two plans, and a file that is none."""
    monkeypatch.setattr(config, "_plan_cache", [(str(tmp_path / "plans"), 1 << 20)])
    monkeypatch.setenv("COLUMNS", "120")

    def first(x):
        return hy.sum(x * 2.0) + x

    def second(x, y):
        return x + y

    hy.hybridize(first)(hy.ones(3))
    hy.hybridize(second)(hy.ones(3), hy.ones(3))
    (tmp_path / "plans" / f"{'0' * 40}.plan").write_text("no plan")
    return tmp_path / "plans"


def test_it_shows_and_clears(folder: Path) -> None:
    shown = CliRunner().invoke(build(), ["plans", str(folder)])
    assert shown.exit_code == 0, shown.output
    rows = {line.split()[0]: line.split()[1:3] for line in shown.stdout.splitlines() if line}
    assert rows["first"] == ["4", "1"] and rows["second"] == ["1", "2"] and "damaged" in rows
    assert shown.stdout.splitlines()[-1].startswith(f"3 plans in {folder}, ")
    cleared = CliRunner().invoke(build(), ["plans", "--clear"])  # those in use here
    assert cleared.exit_code == 0 and cleared.stdout.startswith("3 plans taken away, ")
    assert not list(folder.iterdir())
    assert CliRunner().invoke(build(), ["plans"]).stdout == f"0 plans in {folder}, 0.0 KiB.\n"


def test_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_plan_cache", [])
    monkeypatch.delenv("HYBRID_PLAN_CACHE", raising=False)
    shown = CliRunner().invoke(build(), ["plans"])
    assert shown.exit_code == 2
    assert shown.stderr == "hybrid: no folder: name one, or set HYBRID_PLAN_CACHE.\n"
    shown = CliRunner().invoke(build(), ["plans", str(tmp_path / "none")])
    assert shown.stderr == f"hybrid: {tmp_path / 'none'} is no folder.\n"
