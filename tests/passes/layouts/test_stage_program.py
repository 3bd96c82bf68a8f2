"""Stages of pipelines: where a model is cut, in which order stages work, what cannot be cut."""

import numpy as np
import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.pipeline_stages import Microbatches, Stages, pipe_of
from hybrid.passes.layouts.stage_program import StageProgram
from tests.helpers import graph_of


def perceptron(stages: int = 2, microbatches: int = 2, **options) -> hy.nn.Module:
    hy.random.seed(0)
    model = hy.nn.Sequential(hy.nn.Linear(4, 32), hy.nn.ReLU(), hy.nn.Linear(32, 4))
    return dist.pipeline(model, stages=stages, microbatches=microbatches, **options)


def program_of(model, stages: int, microbatches: int, schedule: str) -> StageProgram:
    dist.pipeline(model, stages=stages, microbatches=microbatches, schedule=schedule)

    def step(x):
        loss = hy.sum(hy.square(model(x)))
        loss.backward()
        return [p.grad for p in model.parameters()]

    graph = hy.hybridize(step).graph(hy.ones((8, 4)))
    pipe = pipe_of(graph)
    small = Microbatches(graph, pipe.microbatches)
    return StageProgram(graph, pipe, small, Stages(graph, pipe, small))


def text_of(program: StageProgram, stage: int) -> str:
    return " ".join([f"{'f' if level < 0 else 'b'}{at}" for level, at in program.units(stage)])


def test_each_stage_has_its_order() -> None:
    layers = [hy.nn.Linear(4, 4) for _ in range(3)]
    program = program_of(hy.nn.Sequential(*layers), 3, 4, "1f1b")
    assert [text_of(program, stage) for stage in range(3)] == [
        "f0 f1 f2 b0 f3 b1 b2 b3",
        "f0 f1 b0 f2 b1 f3 b2 b3",
        "f0 b0 f1 b1 f2 b2 f3 b3",
    ]
    layers = [hy.nn.Linear(4, 4) for _ in range(2)]
    program = program_of(hy.nn.Sequential(*layers), 2, 2, "gpipe")
    assert [text_of(program, stage) for stage in range(2)] == ["f0 f1 b0 b1"] * 2


def test_a_model_is_cut_where_few_bytes_cross() -> None:
    """In a layer of 32 features there are 8 times as many as beside it."""
    text = """
    graph @f(%x: f32[8,4], %a: f32[4,32], %b: f32[32,4], %c: f32[4,32], %d: f32[32,4]) {{
      %0: f32[8,4] = pipeline_edge %x {{begins=true, pipe={pipe}}}
      %1: f32[8,32] = matmul %0, %a
      %2: f32[8,32] = relu %1
      %3: f32[8,4] = matmul %2, %b
      %4: f32[8,32] = matmul %3, %c
      %5: f32[8,32] = relu %4
      %6: f32[8,4] = matmul %5, %d
      %7: f32[8,4] = pipeline_edge %6 {{begins=false, pipe={pipe}}}
      return %7
    }}
    """
    pipe = Pipe._make(("world", 1, 0, 2, 2, "1f1b", False))
    written = '("world", 1, 0, 2, 2, "1f1b", false)'
    graph = graph_of(text.format(pipe=written))
    assert graph_of(str(graph)) == graph
    stages = Stages(graph, pipe, Microbatches(graph, 2))
    assert [node.op.name for node in stages.forward[: stages.cuts[0]]] == [
        "matmul", "relu", "matmul"
    ]  # fmt: skip
    assert stages.crossing == [8 * 4 * 4]


def test_what_goes_back_lies_where_it_went_forward() -> None:
    program = program_of(hy.nn.Sequential(hy.nn.Linear(4, 4), hy.nn.Linear(4, 4)), 2, 2, "gpipe")
    back = {
        stage: [node.op.name for node in program.nodes[0, stage]] for stage in range(2)
    }  # fmt: skip
    assert back[0].count("matmul_tn") == 1 and back[1].count("matmul_tn") == 1
    assert [v.type.shape for v in program.arrivals[0, 0]] == [(8, 4)]
    assert program.arrivals[0, 1] == {}


def test_rows_of_a_microbatch_have_to_be_known_ones() -> None:
    run = hy.hybridize(perceptron(microbatches=4))
    with pytest.raises(ShapeError) as error:
        run(hy.ones((6, 4)))
    assert str(error.value).splitlines()[0].startswith("a batch of 6 rows and 4 microbatches")
    assert "Fix: give a multiple of 4 rows, or pad the batch." in str(error.value)
    assert run(hy.ones((8, 4))).shape == (8, 4)


def test_what_needs_the_whole_batch_is_named_with_its_line() -> None:
    model = hy.nn.Sequential(hy.nn.Linear(4, 4), hy.nn.BatchNorm1d(4), hy.nn.Linear(4, 4))
    dist.pipeline(model, stages=2, microbatches=2)
    with pytest.raises(ShapeError) as error:
        hy.hybridize(model)(hy.ones((4, 4)))
    assert "in a pipelined model cannot be computed by microbatches" in str(error.value)
    assert "It needs all 2 of them at once, and a stage gets them one by one." in str(error.value)
    model.eval()
    assert hy.hybridize(model)(hy.ones((4, 4))).shape == (4, 4)


def test_models_that_cannot_be_cut() -> None:
    with pytest.raises(ShapeError, match="a model of 2 ops cannot be cut into 3 stages"):
        hy.hybridize(dist.pipeline(hy.nn.ReLU(), stages=3, microbatches=1))(hy.ones((4, 4)))
    first, second = perceptron(), perceptron(microbatches=4)
    with pytest.raises(ShapeError, match="two pipelines in one hybridized function"):
        hy.hybridize(lambda x: first(x) + second(x))(hy.ones((4, 4)))


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"stages": 0}, ArgumentError, "stages is 0"),
        ({"stages": 2.0}, ArgumentTypeError, "stages is 2.0"),
        ({"microbatches": True}, ArgumentTypeError, "microbatches is True"),
        ({"microbatches": -1}, ArgumentError, "microbatches is -1"),
        ({"schedule": "zero"}, ArgumentError, "schedule='zero' is unknown"),
        ({"recompute": 1}, ArgumentTypeError, "recompute is 1"),
        ({"axis": "pp", "mesh": "grid"}, ArgumentTypeError, "mesh is 'grid'"),
    ],
)
def test_arguments_are_looked_at(options: dict, kind: type, said: str) -> None:
    with pytest.raises(kind) as error:
        perceptron(**options)
    assert said in str(error.value) and "Fix: " in str(error.value)


def test_only_models_are_pipelined() -> None:
    with pytest.raises(ArgumentTypeError, match="model is a function"):
        dist.pipeline(perceptron, stages=2, microbatches=2)


def test_state_and_eager_calls_are_those_of_the_model() -> None:
    model = perceptron()
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    x = hy.asarray(np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32))
    np.testing.assert_allclose(hy.hybridize(model)(x).numpy(), model(x).numpy(), rtol=1e-6)
