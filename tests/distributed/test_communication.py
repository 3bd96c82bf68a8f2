"""Collectives and messages, by one process and by several: values, bits, gradients, order."""

from __future__ import annotations

import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid.errors import ArgumentError, CaptureError
from hybrid.memory import channels
from hybrid.trace.capture.divided_paths import refuse_divided_paths
from tests.distributed.ranks import by_mpiexec, launched, require_well
from tests.helpers import graph_of

nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=nightly), pytest.param(3, marks=nightly), 4]
)
def test_collectives_of_ranks(ranks: int) -> None:
    require_well(ranks, "everything.py")


@pytest.mark.nightly
def test_python_moves_the_bytes_where_c_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_MPI", "python")
    for job in ("everything.py", "mismatches.py"):
        done = launched(3, job)
        assert done.returncode == 0 and done.stdout.count("all is well") == 3, done.stderr


def test_one_process_needs_no_launcher() -> None:
    require_well(1, "everything.py")


def test_plain_mpiexec_ends_the_job_with_the_error_of_one_rank() -> None:
    done = by_mpiexec(2, "endings.py", "raise")
    assert done.returncode != 0 and "ValueError: bad luck" in done.stderr


def test_mismatches_raise_on_every_rank() -> None:
    done = launched(3, "mismatches.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all is well") == 3


def test_a_branch_of_the_ranks_own_is_refused() -> None:
    """Here by a graph: the job that runs on several ranks has it from a function."""
    text = """
    graph @f(%x: f32[4], %p: bool[]) {{
      %s: f32[4] = all_reduce %x {{comm="world", ranks=2}}
      %z: f32[] = max %s {{axis=(0,), keepdims=false}}
      %q: bool[] = isfinite %z
      %y: f32[4] = cond %{flag}, %x {{
        then(%a: f32[4]) {{
          %b: f32[4] = all_reduce %a {{comm="{comm}", ranks=2}}
          return %b
        }}
        else(%c: f32[4]) {{
          return %c
        }}
      }}
      return %y
    }}
    """
    refuse_divided_paths(graph_of(text.format(flag="q", comm="world")))
    refuse_divided_paths(graph_of(text.format(flag="q", comm="dp of dp=2,tp=2")))
    with pytest.raises(CaptureError) as error:
        refuse_divided_paths(graph_of(text.format(flag="p", comm="world")))
    assert str(error.value) == (
        "all_reduce in a branch that the ranks may not take alike\n"
        "The branch is decided by a tensor that need not be the same on all ranks, and those who "
        "come here would wait for the others for ever.\n"
        "Fix: let a collective make what decides: if hybrid.distributed.all_reduce(x, "
        '"max") > 0; or move the collective out of it.'
    )


def test_a_loop_that_the_ranks_leave_one_by_one_is_refused() -> None:
    """What is carried begins alike and does not stay so."""
    text = """
    graph @f(%x: f32[]) {{
      %p: bool[] = full {{dtype=bool, shape=(), value=true}}
      %s: f32[] = full {{dtype=f32, shape=(), value=1.0}}
      %n: i64[], %y: f32[] = while %p, %s, %x {{carried=1, length=0}} {{
        body(%a: f32[], %b: f32[]) {{
          %r: f32[] = all_reduce %a {{comm="world", ranks=2}}
          %c: f32[] = add %r, {next}
          %q: bool[] = isfinite %c
          return %q, %c
        }}
      }}
      return %y
    }}
    """
    refuse_divided_paths(graph_of(text.format(next="%r")))
    with pytest.raises(CaptureError, match="all_reduce in a loop that the ranks may not take"):
        refuse_divided_paths(graph_of(text.format(next="%b")))


def test_a_graph_of_another_job_is_refused() -> None:
    with pytest.raises(ArgumentError) as error:
        channels.reach("world", 7)
    assert str(error.value) == (
        "a graph communicates through 'world', a group of 7 processes, and it has 1 here\n"
        "Fix: call hybrid.distributed.init() or hybrid.distributed.mesh(...) as the program did "
        "that the graph comes from, in a job of as many processes."
    )
    with pytest.raises(ArgumentError, match="and none is open"):
        channels.reach("dp of dp=7", 7)


def test_captures_that_communicate_do_not_run_eagerly_now_and_then() -> None:
    """Each rank would measure other times, and run another way than the others."""
    step = hy.hybridize(lambda x: dist.all_reduce(x) + 1)
    for n in range(1, 60):
        step(hy.ones(n % 7 + 1))
    assert step.ledger.eager_calls == 0


def test_a_graph_with_collectives_parses_back() -> None:
    function = hy.hybridize(lambda x: dist.broadcast(dist.all_gather(x)))
    graph = function.graph(hy.ones(3))
    assert graph_of(str(graph)) == graph
    assert "all_gather" in str(graph) and "root=0" in str(graph)


def test_plans_name_what_they_communicate() -> None:
    function = hy.hybridize(lambda x: dist.all_reduce(x * 2))
    function(hy.ones(3))
    assert "copy f32[3] -> f32[3]" in function.plans[0].schedule()  # of one process
