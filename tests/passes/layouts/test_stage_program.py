"""Stages of pipelines: where a model is cut, in which order stages work, what cannot be cut."""

import numpy as np
import pytest

import hybrid as hy
import hybrid.distributed as dist
from hybrid.errors import ArgumentError, ArgumentTypeError, ShapeError
from hybrid.ir import Graph
from hybrid.ops.communication.pipeline_op import Pipe
from hybrid.passes.layouts.pipeline_stages import Microbatches, Stages, pipe_of
from hybrid.passes.layouts.stage_program import StageProgram
from hybrid.passes.layouts.stage_writer import RankWriter
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
    layers = [hy.nn.Linear(4, 4) for _ in range(4)]
    program = program_of(hy.nn.Sequential(*layers), 2, 2, "gpipe")
    for stage in range(2):
        forward, back = (
            [node.op.name for node in program.nodes[level, stage]] for level in (-1, 0)
        )
        count = forward.count("matmul_nt")
        assert count and back.count("matmul_tn") == count
        assert back.count("matmul") == (count if stage else count - 1)  # none of the input
    assert [v.type.shape for v in program.arrivals[0, 0]] == [(8, 4)]
    assert program.arrivals[0, 1] == {}


HELD = """
    graph @f(%x: f32[8,4], %a: f32[4,4], %m: f32[4,4], %b: f32[4,4]) {{
      %0: f32[8,4] = pipeline_edge %x {{begins=true, pipe={pipe}}}
      %1: f32[4,4] = permute_dims %a {{axes=(1, 0)}}
      %2: f32[8,4] = matmul %0, %1
      %3: f32[8,4] = matmul %2, %b
      %4: f32[8,4] = pipeline_edge %3 {{begins=false, pipe={pipe}}}
      %5: f32[4,4] = multiply %a, %m
      %6: f32[4,4] = multiply %b, %b
      %7: f32[] = sum %5 {{axis=(0, 1), keepdims=false}}
      %8: f32[] = sum %6 {{axis=(0, 1), keepdims=false}}
      %9: f32[] = add %7, %8
      %10: f32[4,4] = add %5, %9
      return %4, %10, %9
    }}
    """


def held_program(rank: int, **held: int) -> tuple[StageProgram, Graph]:
    """Of rank ``rank`` of two, where stages hold the parameters so called."""
    pipe = Pipe._make(("pp", 2, rank, 2, 2, "gpipe", False))
    graph = graph_of(HELD.format(pipe=f'("pp", 2, {rank}, 2, 2, "gpipe", false)'))
    cells = {v: held[v.hint] for v in graph.params if v.hint in held}
    small = Microbatches(graph, 2)
    stages = Stages(graph, pipe, small, cells)
    return StageProgram(graph, pipe, small, stages, held=cells, kept={1: held["a"]}), graph


def test_what_needs_cells_of_one_stage_is_computed_there() -> None:
    program, graph = held_program(0, a=0, b=1)
    homes = {str(node.op.name): stage for node, stage in program.home.items()}
    assert homes == {"permute_dims": 0, "multiply": 1, "sum": 1, "add": 0}
    assert program.stages.cuts == [1]
    added = graph.nodes[-2]
    assert added.op.name == "add" and added not in program.home  # of what both have
    texts = [str(RankWriter(held_program(rank, a=0, b=1)[0]).graph()) for rank in range(2)]
    for text in texts:  # the two terms, and the result of the model
        assert text.count("broadcast %") == 3 and "broadcast f32[4,4]" not in text
    assert texts[0].count("multiply") == texts[1].count("multiply") == 1
    assert "return" in texts[1] and "f32[0] = full" in texts[1] and "f32[0]" not in texts[0]


def test_a_cut_is_where_cells_are_held() -> None:
    """Or, where stages hold them in another order, where it is best without."""
    program, _ = held_program(0, a=0, b=0)
    assert program.stages.cuts == [2] and not program.asked_for_all(-1)
    program, graph = held_program(0, a=1, b=0)
    alone = Stages(graph, program.pipe, program.small)
    assert program.stages.cuts == alone.cuts and program.asked_for_all(-1)


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
        hy.hybridize(lambda x: model(x))(hy.ones((4, 4)))
    assert "in a pipelined model cannot be computed by microbatches" in str(error.value)
    assert "It needs all 2 of them at once, and a stage gets them one by one." in str(error.value)
    model.eval()
    assert hy.hybridize(lambda x: model(x))(hy.ones((4, 4))).shape == (4, 4)


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
