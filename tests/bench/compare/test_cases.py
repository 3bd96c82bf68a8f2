"""The workloads: their numbers are the same everywhere, and what they state is right."""

from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.bench.compare import problems
from hybrid.bench.compare.cases import WORKLOADS, case_of, model_case

CASES = [(w.name, c.label) for w in WORKLOADS.values() for c in w.cases]
SMALLER = [pair for pair in CASES if "resnet18" not in pair[0] and "2048" not in pair[1]]


@pytest.mark.parametrize(("name", "label"), SMALLER)
def test_problems_are_the_same_in_every_process(name: str, label: str) -> None:
    workload = WORKLOADS[name]
    case = workload.case(label)
    one, two = case.problem(), case.problem()
    assert list(one.parameters) == list(two.parameters)
    arrays = [*one.inputs, *one.parameters.values()]
    for a, b in zip(arrays, [*two.inputs, *two.parameters.values()], strict=True):
        assert a.dtype in (np.float32, np.int64) and a.dtype == b.dtype and np.array_equal(a, b)
    quantized = name.startswith("int")
    assert case.flops > 0 and case.parts > 0
    assert 0 < workload.tolerance <= (0.8 if quantized else 1e-2)
    given = sum(a.nbytes for a in arrays if a.dtype == np.float32)
    if quantized:  # of float32 there are 32 bits, of weights 4 or 8
        given /= 8
    if name not in ("softmax", "lstm_train", "gpt_train", "gpt_infer"):  # they need not read all
        assert case.nbytes >= 0.5 * given


def test_names_and_labels_are_unique() -> None:
    assert len(set(CASES)) == len(CASES)
    assert all(name == workload.name for name, workload in WORKLOADS.items())


def test_a_network_of_eighteen_layers_has_its_parameters() -> None:
    """The number that K. He et al. and everyone after them have."""
    made = problems.residual(problems.RESNET18, 7, 1000, used=True)
    assert sum(v.size for k, v in made.items() if not k.endswith(_STATE)) == 11_689_512
    (first, _) = WORKLOADS["resnet18_infer"].cases
    assert first.flops / 2e9 == pytest.approx(1.814, abs=1e-3)  # as is known of it


def test_the_lengths_are_200_different_ones_in_no_order() -> None:
    assert sorted(problems.LENGTHS) == list(range(5, 205))
    assert list(problems.LENGTHS) != sorted(problems.LENGTHS)
    (case, _) = WORKLOADS["lengths"].cases
    assert [x.shape for x in case.problem().inputs] == [(1, n, 64) for n in problems.LENGTHS]
    assert case.parts == 200


def test_a_model_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    hy.onnx.export(
        lambda x, i: x[i] * 2, path, hy.ones((4, 3)), hy.asarray([1, 2]),
        dynamic_axes={0: {1: "width"}, 1: {0: "count"}},
    )  # fmt: skip
    case = model_case(f"{path}@width=5")
    assert (case.flops, case.nbytes) == (0, path.stat().st_size)
    one, two = case.problem(), case_of("onnx", case.label).problem()
    assert [x.shape for x in one.inputs] == [(4, 5), (1,)] and one.path == str(path)
    assert [x.dtype for x in one.inputs] == [np.float32, np.int64]
    for a, b in zip(one.inputs, two.inputs, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("text", ["width", "width=x", "=3", "width=3,"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="says no sizes: write FILE@batch=8,length=64"):
        problems.sizes_in(f"m.onnx@{text}")


_STATE = ("running_mean", "running_var", "num_batches_tracked")


def test_the_loop_has_so_many_iterations() -> None:
    (x,) = problems.newton().inputs
    count = 0
    while np.max(np.abs(x)) > problems.SMALL:
        x = x - problems.STEP * np.sin(x)
        count += 1
    assert abs(count - problems.ITERATIONS) <= 2
