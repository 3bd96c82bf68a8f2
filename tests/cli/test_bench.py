"""``hybrid bench``: its table, its file, and its exit code when a result is wrong."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hybrid.bench import registry
from hybrid.bench.compare.cases import WORKLOADS
from hybrid.bench.registry import BenchError, Case, Target, Workload, workloads
from hybrid.cli.app import build


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


class Takes:
    """A way of running that takes a stated time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def sample(self, count: int) -> float:
        return self.seconds * count


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workloads that need no tensors, one of which comes to a wrong result."""

    def good() -> list[Case]:
        ways = {"eager": Takes(0.004), "hybridized": Takes(0.002)}
        return [Case("sums", ways, lambda: {"sum": "right"}, flops=4e6)]

    def wrong() -> list[Case]:
        def check() -> dict[str, str]:
            raise BenchError("wrong: two and two are five", why="One of them was three.")

        return [Case("sums", {"eager": lambda: None}, check)]

    made = {"good": Workload("good", "adds", good), "wrong": Workload("wrong", "adds", wrong)}
    workloads()  # load the real ones first, so that they are not added to these
    monkeypatch.setattr(registry, "_workloads", made)


def test_what_lasts_is_measured_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def build_() -> list[Case]:
        return [Case("sums", {"eager": Takes(0.004)}, dict)]

    made = {
        "brief": Workload("brief", "adds", build_),
        "slow": Workload("slow", "adds", build_, True),
    }
    assert registry.find("sizes").lasts and registry.find("sizes") not in registry.quick()
    monkeypatch.setattr(registry, "_workloads", made)
    for command, measured in ((["run"], {"brief"}), (["slow"], {"slow"})):
        shown = CliRunner().invoke(build(), ["bench", *command])
        assert shown.exit_code == 0, shown.output
        assert {name for name in made if name in shown.stdout} == measured


def test_a_first_look_is_at_some_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in registry.first_look():
        assert sorted(case.label for case in one.build()) == sorted(one.first_look), one.name

    def build_() -> list[Case]:
        return [Case(label, {"eager": Takes(0.004)}, dict) for label in ("few", "many")]

    made = {
        "named": Workload("named", "adds", build_),
        "shown": Workload("shown", "adds", build_, first_look=("few",)),
    }
    monkeypatch.setattr(registry, "_workloads", made)
    shown = CliRunner().invoke(build(), ["bench"])
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert [line for line in lines if line.endswith((", few", ", many"))] == ["shown, few"]
    assert "`hybrid bench run`" in lines[-1]


def test_figures_stand_below_each_other_whatever_the_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build_() -> list[Case]:
        ways = {"eager": Takes(0.004), "a way with a long name": Takes(0.002)}
        return [Case("a case with a name that is longer than all figures", ways, dict, flops=4e6)]

    workloads()
    monkeypatch.setattr(registry, "_workloads", {"good": Workload("good", "adds", build_)})
    monkeypatch.setenv("COLUMNS", "40")
    shown = CliRunner().invoke(build(), ["bench", "good", "--repeat", "3"])
    lines = shown.stdout.splitlines()
    at = lines.index("good, a case with a name that is longer than all figures")
    heads, ways = lines[at - 1], lines[at + 1 : at + 3]
    assert [way[:24].strip() for way in ways] == ["eager", "a way with a long name"]
    for word, figure in (("median", "2.00 ms"), ("p90", "2.00"), ("speed", "2.00x")):
        assert ways[1][: heads.index(word) + len(word)].endswith(f" {figure}")


def test_list_names_every_workload() -> None:
    shown = CliRunner().invoke(build(), ["bench", "list"])
    assert shown.exit_code == 0
    rows = {line.split(" ")[0]: line for line in shown.stdout.splitlines()}
    assert set(workloads()) | set(WORKLOADS) <= set(rows)
    assert "run, compare" in rows["chain20"]
    assert "run, compare" not in rows["loader"] and "run, compare" not in rows["gpt_train"]


def test_run_prints_a_table_and_writes_json(made_up: None, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    shown = CliRunner().invoke(
        build(), ["bench", "run", "good", "--repeat", "3", "--threads", "1", "--json", str(path)]
    )
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.stdout.splitlines())) <= 80
    for part in ("good", "sums", "eager", "4.00 ms", "hybridized", "2.00x", "good: sum: right"):
        assert part in shown.stdout
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["machine"]["isa"] and written["machine"]["threads"] == 1
    (result,) = written["results"]
    assert (result["workload"], result["case"], result["threads"]) == ("good", "sums", 1)
    eager, hybridized = result["lines"]
    assert eager["speedup"] == 1.0 and hybridized["speedup"] == pytest.approx(2.0)
    assert (eager["gflops"], hybridized["gflops"]) == pytest.approx((1.0, 2.0))
    assert eager["timing"]["samples"] == 3
    assert eager["timing"]["p10"] <= eager["timing"]["median"] <= eager["timing"]["p90"]


def test_budgets_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build_() -> list[Case]:
        ways = {"eager": Takes(0.004), "hybridized": Takes(0.002)}
        budgets = {"eager": 0.003, "hybridized": 0.003}
        return [Case("sums", ways, dict, budgets=budgets), Case("rest", ways, dict, flops=4e6)]

    workloads()
    made = {"good": Workload("good", "adds", build_)}
    monkeypatch.setattr(registry, "_workloads", made)
    path = tmp_path / "out.json"
    shown = CliRunner().invoke(build(), ["bench", "run", "--repeat", "3", "--json", str(path)])
    assert shown.stdout.endswith(
        "good: sums, eager: 4.00 ms of 3.00 ms, over\ngood: sums, hybridized: 2.00 ms of 3.00 ms\n"
    )
    written = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert [line["budget"] for line in written[0]["lines"]] == [0.003, 0.003]


def test_targets_are_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ways = {"eager": Takes(0.004), "hybridized": Takes(0.002)}
    made = Workload("good", "adds", lambda: [Case("sums", ways, dict, targets=targets)])
    targets = {"hybridized": (Target(0.4), Target(1.0, beside="hybridized"))}
    workloads()
    monkeypatch.setattr(registry, "_workloads", {"good": made})
    path = tmp_path / "out.json"
    shown = CliRunner().invoke(build(), ["bench", "run", "--repeat", "3", "--json", str(path)])
    assert shown.stdout.endswith(
        "good: sums, hybridized: 0.50 of eager, target 0.40, over\n"
        "good: sums, hybridized: 1.00 of hybridized, target 1.00\n"
    ), shown.output
    written = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert [line["targets"] for line in written[0]["lines"]] == [
        [],
        [
            {"share": 0.4, "more": 0.0, "beside": ""},
            {"share": 1.0, "more": 0.0, "beside": "hybridized"},
        ],
    ]


def test_a_wrong_result_ends_with_code_one(made_up: None, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    shown = CliRunner().invoke(build(), ["bench", "run", "wrong", "--json", str(path)])
    assert shown.exit_code == 1
    assert shown.stderr == "hybrid: wrong: two and two are five. One of them was three.\n"
    assert not path.exists()


def test_the_name_of_a_workload_runs_it(made_up: None) -> None:
    for args in (["good"], ["good", "--repeat", "2"], ["run", "good"]):
        shown = CliRunner().invoke(build(), ["bench", *args])
        assert shown.exit_code == 0, shown.output
        assert "sums" in shown.stdout
    shown = CliRunner().invoke(build(), ["bench", "nothing"])
    assert shown.exit_code == 2 and "No such command 'nothing'" in shown.output


def test_ops_measures_functions_beside_numpy(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    options = ["--size", "10", "--size", "20", "--repeat", "1", "--json", str(path)]
    shown = CliRunner().invoke(build(), ["bench", "ops", "log1", *options])
    assert shown.exit_code == 0
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith("log1")]
    assert sorted(row[:2] for row in rows) == [
        ["log10", "10"], ["log10", "20"], ["log1p", "10"], ["log1p", "20"],
    ]  # fmt: skip
    written = json.loads(path.read_text(encoding="utf-8"))
    assert len(written["rows"]) == 4 and written["rows"][0]["ours"]["median"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nothing"], "no function's name contains 'nothing'"),
        (["exp", "--size", "0"], "at least one element"),
        (["exp", "--dtype", "int8"], "use float32 or float64"),
        (["exp", "--repeat", "0"], "at least one round"),
    ],
)
def test_ops_says_what_is_wrong_with_its_options(options: list[str], message: str) -> None:
    shown = CliRunner().invoke(build(), ["bench", "ops", *options])
    assert shown.exit_code == 2 and message in shown.stderr


@pytest.mark.usefixtures("quick_limits")
def test_limits(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    shown = CliRunner().invoke(build(), ["bench", "limits", "--threads", "2", "--json", str(path)])
    assert shown.exit_code == 0, shown.output
    for part in ("f32", "multiply-adds of float32", "GFLOP/s", "memory", "1 thread ", "2 threads"):
        assert part in shown.stdout
    rows = json.loads(path.read_text(encoding="utf-8"))["limits"]
    assert {row["threads"] for row in rows} == {1, 2} and all(row["rate"] > 0 for row in rows)
