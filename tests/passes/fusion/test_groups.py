"""Groups never form a cycle, and run in an order that respects every dependency."""

from hypothesis import given
from hypothesis import strategies as st

from hybrid.core.types import float32, tensor_type
from hybrid.ir import Builder, Graph, Op, get_op
from hybrid.passes.fusion.groups import Groups, schedule
from tests.helpers import graph_of

F4 = tensor_type(float32, (4,))


def groups_of(graph: Graph, largest: int = 64) -> Groups:
    return Groups(graph.nodes, [F4.shape] * len(graph.nodes), largest)


DIAMOND = """
    graph @f(%x: f32[4]) {
      %a: f32[4] = exp %x
      %b: f32[4] = sin %a
      %c: f32[4] = cos %a
      %d: f32[4] = add %b, %c
      return %d
    }
    """


def test_a_direct_edge_merges() -> None:
    groups = groups_of(graph_of(DIAMOND))
    assert groups.merge(0, 1)
    assert groups.root(0) == groups.root(1)
    assert list(schedule(groups)) == [[0, 1], [2], [3]]


def test_a_path_by_way_of_a_third_group_does_not() -> None:
    groups = groups_of(graph_of(DIAMOND))
    assert groups.merge(0, 1)
    assert not groups.merge(0, 3), "2 would have to run in the middle of the group"
    assert groups.merge(2, 0)
    assert groups.merge(0, 3)
    assert list(schedule(groups)) == [[0, 1, 2, 3]]


def test_groups_without_a_path_merge() -> None:
    groups = groups_of(graph_of(DIAMOND))
    assert groups.merge(1, 2)
    assert list(schedule(groups)) == [[0], [1, 2], [3]]


def test_what_merges_leads_to_is_passed_on() -> None:
    """Merging 1 with 2 makes 0 lead to 3, and so keeps 0 and 4 apart."""
    graph = graph_of(
        """
        graph @f(%x: f32[4]) {
          %a: f32[4] = exp %x
          %b: f32[4] = sin %a
          %c: f32[4] = sin %x
          %d: f32[4] = cos %c
          %e: f32[4] = add %a, %d
          return %b, %e
        }
        """
    )
    before = groups_of(graph)
    assert before.merge(0, 4)
    groups = groups_of(graph)
    assert groups.merge(1, 2)
    assert not groups.merge(0, 4)


def test_shapes_and_sizes_are_limits() -> None:
    graph = graph_of(DIAMOND)
    shapes = [(4,), (4,), None, (2,)]
    groups = Groups(graph.nodes, shapes, 64)
    assert groups.merge(0, 1)
    assert not groups.merge(0, 2) and not groups.merge(2, 3) and not groups.merge(1, 3)
    groups = groups_of(graph, largest=2)
    assert groups.merge(0, 1)
    assert not groups.merge(2, 0)
    assert groups.merge(0, 1), "they are one already"


def test_impure_nodes_run_in_order(impure_op: Op) -> None:
    """Node 3 needs the second effect, and shares a group with node 0."""
    graph = graph_of(
        f"""
        graph @f(%x: f32[4]) {{
          %a: f32[4] = exp %x
          %u: f32[4] = {impure_op.name} %x
          %v: f32[4] = {impure_op.name} %x
          %b: f32[4] = add %a, %v
          return %a, %b
        }}
        """
    )
    groups = groups_of(graph)
    assert groups.merge(0, 3)
    assert list(schedule(groups)) == [[1], [2], [0, 3]]


@st.composite
def merges(draw: st.DrawFn) -> tuple[Graph, list[tuple[int, int]]]:
    builder = Builder("f")
    values = [builder.param(F4)]
    count = draw(st.integers(2, 14))
    for _ in range(count):
        operands = [draw(st.sampled_from(values[-6:])) for _ in range(2)]
        values += builder.apply(get_op("add"), operands)
    index = st.integers(0, count - 1)
    return builder.finish(values), draw(st.lists(st.tuples(index, index), max_size=20))


def reaches(graph: Graph, groups: Groups) -> bool:
    """Whether the groups form a cycle, found the slow way."""
    after: dict[int, set[int]] = {}
    for i in range(len(graph.nodes)):
        users = {groups.root(user) for user in groups.users[i]}
        after.setdefault(groups.root(i), set()).update(users - {groups.root(i)})
    while True:
        wider = {a: bs.union(*[after[b] for b in bs]) for a, bs in after.items()}
        if wider == after:
            return any(a in bs for a, bs in after.items())
        after = wider


@given(merges())
def test_random_merges(case: tuple[Graph, list[tuple[int, int]]]) -> None:
    graph, pairs = case
    groups = groups_of(graph)
    for i, j in pairs:
        merged = groups.merge(i, j)
        assert not reaches(graph, groups)
        if not merged:  # refused only for a reason
            trial = groups_of(graph)
            trial._root = [groups.root(k) for k in range(len(graph.nodes))]
            a, b = trial.root(i), trial.root(j)
            trial._root = [b if root == a else root for root in trial._root]
            assert reaches(graph, trial)
    done: set[int] = set()
    for members in schedule(groups):
        assert members == sorted(members)
        needed = {p for member in members for p in groups.producers[member]}
        assert needed <= done | set(members)
        done |= set(members)
    assert done == set(range(len(graph.nodes)))
