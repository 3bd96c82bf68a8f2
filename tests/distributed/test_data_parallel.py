"""Training with batches that ranks share out: like one process, or its very bits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid import nn
from hybrid.distributed import meshes
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    DTypeError,
    GradientError,
    HybridError,
    ShapeError,
)
from hybrid.memory.channels import tree_sum
from hybrid.ops.communication.shard_tree import (
    cut_evenly,
    local_parts,
    most_parts,
    parts_of,
    sum_of_parts,
)
from tests.distributed.ranks import JOBS, launched, require_well, run

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    "ranks", [2, pytest.param(3, marks=nightly), pytest.param(4, marks=nightly)]
)
def test_ranks_train_like_one_process(ranks: int, tmp_path: Path) -> None:
    done = launched(ranks, "data_parallel.py", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{ranks} ranks: all is well\n"


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=nightly), 2])
def test_parameters_that_no_rank_uses_have_no_gradient(ranks: int) -> None:
    require_well(ranks, "unused_parameters.py")


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=nightly)])
def test_ranks_hold_less_the_more_they_share(ranks: int) -> None:
    require_well(ranks, "held_slices.py")


@pytest.mark.nightly
def test_one_rank_trains_like_one_process(tmp_path: Path) -> None:
    done = run([sys.executable, str(JOBS / "data_parallel.py"), str(tmp_path)])
    assert (done.stdout, done.stderr) == ("1 ranks: all is well\n", "")


def _printed(ranks: int, *arguments: str) -> str:
    if ranks == 1:
        done = run([sys.executable, str(JOBS / "same_bits.py"), *arguments])
    else:
        done = launched(ranks, "same_bits.py", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("shards", "ranks", "what"),
    [
        (8, (1, 3), ("model",)),
        pytest.param(8, (1, 2, 3, 4), ("steps", "model", "zero"), marks=nightly),
        pytest.param(6, (1, 2, 4), ("steps",), marks=nightly),
        pytest.param(2, (1, 3), ("steps", "model"), marks=nightly),
    ],
)
def test_any_number_of_ranks_has_the_same_bits(
    shards: int, ranks: tuple[int, ...], what: tuple[str, ...]
) -> None:
    found = {_printed(n, str(shards), *what) for n in ranks}
    assert len(found) == 1 and next(iter(found)).count("\n") >= 2


# From a file to a file --------------------------------------------------------------------------


def _goes_on(ranks: int, folder: Path, begin: int, end: int, zero: int = 0) -> str:
    done = launched(ranks, "elastic.py", str(folder), str(begin), str(end), str(zero))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("zero", "stretches"),
    [
        (3, ((2, 0, 4), (3, 4, 7))),
        pytest.param(2, ((3, 0, 3), (2, 3, 5)), marks=nightly),
        pytest.param(0, ((4, 0, 4), (2, 4, 9), (3, 9, 13)), marks=nightly),
    ],
)
def test_training_goes_on_with_other_ranks_to_the_same_bits(
    zero: int, stretches: tuple[tuple[int, int, int], ...], tmp_path: Path
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    end = stretches[-1][-1]
    script = [sys.executable, str(JOBS / "elastic.py"), str(alone), "0", str(end), "0"]
    done = run(script)
    assert done.returncode == 0, done.stderr
    for ranks, begin, to in stretches:
        said = _goes_on(ranks, together, begin, to, zero)
        assert said.startswith(f"{ranks} ranks: {begin} to {to}, ")
    name = f"{end}.safetensors"
    assert (alone / name).read_bytes() == (together / name).read_bytes()


# The tree ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2, 3, 5, 6, 8, 13])
def test_the_tree_is_that_of_one_process(shards: int) -> None:
    """The expression itself, as a text: on any number of ranks it is that of ``tree_sum``."""

    class Term(str):
        __slots__ = ()

        def __add__(self, other: str) -> Term:
            return Term(f"({self}+{other})")

    terms = [Term(i) for i in range(shards)]
    whole = tree_sum(terms)
    for ranks in range(1, 15):
        cuts = [cut_evenly(shards, ranks, rank) for rank in range(ranks)]
        parts = [
            local_parts(terms[slice(*cut)], shards, ranks, rank, Term.__add__)
            for rank, cut in enumerate(cuts)
        ]
        assert most_parts(shards, ranks) == max(map(len, parts))
        found = sum_of_parts(lambda r, p, of=parts: of[r][p], shards, ranks, Term.__add__)
        assert found == whole
    assert [len(parts_of(8, ranks, 0)) for ranks in (1, 2, 3, 4, 8)] == [1, 1, 2, 1, 1]


@pytest.mark.parametrize("shards", [1, 4, 7])
def test_shards_are_cut_as_numpy_cuts(shards: int) -> None:
    for n in range(20):
        wanted = [len(part) for part in np.array_split(np.arange(n), shards)]
        cuts = [cut_evenly(n, shards, at) for at in range(shards)]
        assert [end - first for first, end in cuts] == wanted
        assert cuts[0][0] == 0 and cuts[-1][1] == n
    assert dist.rows(10, shards) == slice(0, 10)  # one rank has all


# One rank ----------------------------------------------------------------------------------------


def test_mean_of_one_rank() -> None:
    x = hy.asarray([[1.0, 2.0], [3.0, 5.0]])
    x.requires_grad = True
    total = dist.mean(x)
    assert total.item() == 2.75 and total.dtype is hy.float32
    total.backward()
    assert x.grad.tolist() == [[0.25, 0.25], [0.25, 0.25]]
    hybridized = hy.hybridize(dist.mean)
    assert hybridized(x.detach()).item() == 2.75


def test_draws_by_rows_are_stretches_of_those_of_the_batch() -> None:
    def draws(net: Any, n: int, shards: Any) -> np.ndarray:
        hy.random.seed(1)
        dist.data_parallel(net, hy.optim.SGD(net.parameters()), shards)
        return net(hy.ones((n, 37))).detach().numpy()

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter([1.0])

        def forward(self, x: Any) -> Any:
            normal = hy.random.normal(size=x.shape, dtype=hy.float64).astype(hy.float32)
            whole = hy.random.integers(0, 9, size=x.shape) + hy.random.gamma(x)
            return nn.functional.dropout(x, 0.5) * self.scale + normal * 10 + whole * 0.0

    for n in (8, 11):
        assert (draws(Noisy(), n, "ranks") == draws(Noisy(), n, 4)).all()
        assert len(np.unique(draws(Noisy(), n, 4))) > 37 * n * 0.9


WRONG = [
    (lambda m, o: dist.data_parallel(o, o), ArgumentTypeError, "give an nn.Module"),
    (lambda m, o: dist.data_parallel(m, m), ArgumentTypeError, "give one of hy.optim"),
    (lambda m, o: dist.data_parallel(m, o, shards=0), ArgumentError, "a number of shards from 1"),
    (lambda m, o: dist.data_parallel(m, o, shards="all"), ArgumentError, 'give "ranks", or'),
    (lambda m, o: dist.data_parallel(m, o, shards=2.0), ArgumentTypeError, "shards is 2.0"),
    (lambda m, o: dist.data_parallel(m, o, zero=4), ArgumentError, "give 0, 1, 2 or 3"),
    (
        lambda m, o: dist.data_parallel(m, hy.optim.LBFGS(m.parameters()), zero=1),
        ArgumentError,
        "use another optimizer",
    ),
    (lambda m, o: dist.data_parallel(m, o, bucket_bytes=0), ArgumentError, "an int from 1 on"),
    (
        lambda m, o: dist.data_parallel(m, o, mesh=dist.mesh((1,), ("tp",)), axis="dp"),
        ArgumentError,
        "no axis 'dp'",
    ),
    (lambda m, o: dist.data_parallel(nn.Linear(2, 2), o), ArgumentError, "model.parameters()"),
    (lambda m, o: [dist.data_parallel(m, o, 2) for _ in "ab"], ArgumentError, "already"),
    (lambda m, o: dist.rows(-1), ArgumentError, "0 or more"),
    (lambda m, o: dist.rows(1.0), ArgumentTypeError, "number of its rows"),
    (lambda m, o: dist.mean(hy.arange(3)), DTypeError, "astype(hybrid.float32)"),
    (lambda m, o: dist.mean(hy.ones(())), ShapeError, 'reduction="none"'),
    (lambda m, o: dist.data_parallel(m, o, 2)[0](), ArgumentError, "without a tensor that has"),
    (lambda m, o: dist.DistributedSampler(3), ArgumentTypeError, "has no length"),
    (lambda m, o: dist.DistributedSampler([]), ArgumentError, "without samples"),
    (lambda m, o: dist.DistributedSampler([1], 1), ArgumentTypeError, "True or False"),
    (lambda m, o: dist.DistributedSampler([1], seed=0.5), ArgumentTypeError, "give an int"),
    (lambda m, o: dist.DistributedSampler([1]).set_epoch(-1), ArgumentError, "from 0 on"),
    (
        lambda m, o: hy.data.DataLoader([1], None, sampler=dist.DistributedSampler([1])),
        ArgumentError,
        "a batch_size",
    ),
]


@pytest.mark.parametrize(("call", "kind", "fix"), WRONG, ids=[fix for _, _, fix in WRONG])
def test_wrong_arguments(call: Any, kind: type[HybridError], fix: str) -> None:
    model = nn.Linear(3, 2)
    with pytest.raises(kind) as caught:
        call(model, hy.optim.SGD(model.parameters(), lr=0.1))
    assert fix in str(caught.value)


def test_parameters_beside_batch_norms_are_refused_with_shards() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.norm = nn.Parameter([1.0]), nn.BatchNorm1d(3)

    net = nn.Sequential(nn.Linear(3, 3), Scaled())
    with pytest.raises(ArgumentError) as caught:
        dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1), shards=2)
    assert str(caught.value) == (
        "1.scale is a parameter beside batch norms, and the batch is to be cut into shards\n"
        "Parts of a model are run shard by shard, and stop where a batch norm looks at all rows; "
        "so a part with parameters may not have one within it.\n"
        'Fix: put the parameter into a module of its own, or leave shards="ranks".'
    )


def test_a_hybridized_part_may_not_ask_for_rows() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.5), nn.ReLU()))
    dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1), shards=2)
    wanted = net.hybridize()(hy.ones((4, 3)))  # the whole model: its plan is left out
    assert wanted.shape == (4, 3) and not net.plans
    net.hybridize(False)[1].hybridize()
    with pytest.raises(CaptureError) as caught:
        net(hy.ones((4, 3)))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(
        "a batch norm, a draw or a mean over rows in a hybridized part of a data-parallel model"
    )
    assert rest[-2:] == [
        "It goes by the rows of all ranks, which the call of the model has, and its part has a "
        "plan of its own.",
        "Fix: hybridize the function of a whole step, in place of the part.",
    ]
    step = hy.hybridize(lambda x: net(x))
    assert step(hy.ones((4, 3))).shape == (4, 3)


def test_an_axis_needs_a_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meshes, "_last", [])
    model = nn.Linear(3, 2)
    with pytest.raises(ArgumentError, match="axis 'dp' without a mesh"):
        dist.data_parallel(model, hy.optim.SGD(model.parameters(), lr=0.1), axis="dp")


def test_mean_goes_over_the_ranks_of_the_model() -> None:
    require_well(2, "means.py")


@pytest.mark.nightly
def test_mean_goes_over_the_ranks_of_the_model_in_a_mesh_of_four() -> None:
    require_well(4, "means.py")


def test_a_plan_of_the_call_alone_has_no_way_back() -> None:
    net = nn.Linear(3, 2)
    dist.data_parallel(net, hy.optim.SGD(net.parameters(), lr=0.1), shards=2)
    loss = hy.hybridize(lambda x: dist.mean(net(x)))(hy.ones((4, 3)))
    assert loss.requires_grad
    with pytest.raises(GradientError) as caught:
        loss.backward()
    first, _, *rest = str(caught.value).splitlines()
    assert first.startswith(
        "backward() of what a hybridized function computed by a data-parallel model"
    )
    assert rest == [
        "Its gradients are summed over the ranks by the backward() of the function that calls the "
        "model, and that is not in its plan.",
        "Fix: hybridize the function of a whole step: the call of the model, backward() and the "
        "step of the optimizer.",
    ]
