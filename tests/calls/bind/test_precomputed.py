"""What is kept of cells is never stale, however their bytes change, and goes with its plan."""

import ctypes
import gc
import threading
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.calls import plan_table
from hybrid.calls.bind import generate as binding
from hybrid.calls.bind import precomputed
from hybrid.calls.executable import USED
from hybrid.eager.fused_calls import optimized_plan
from hybrid.eager.tensor import make_tensor
from hybrid.memory import buffers, native
from hybrid.nn import functional
from tests.helpers import same, tensor

SHAPE = (16, 8, 3, 3)
X = tensor(1, 8, 12, 12, seed=1)


def make(cell: hy.Tensor, **options):
    """A hybridized function of ``cell``, and what it should return."""

    def eager(x):
        return functional.conv2d(x, cell, padding=1)

    return hy.hybridize(lambda x: functional.conv2d(x, cell, padding=1), **options), eager


def own(seed: int = 0) -> hy.Tensor:
    """A cell whose memory is the library's."""
    return tensor(*SHAPE, seed=seed) * 1.0


def kept_of(function) -> precomputed.PrecomputedResults | None:
    (planned,) = function._table.all()
    return planned.precomputed


def checked(function, eager) -> None:
    assert same(function(X), eager(X))


def warm(function, eager) -> precomputed.PrecomputedResults:
    """After two calls something is kept."""
    checked(function, eager)
    checked(function, eager)
    found = kept_of(function)
    assert found is not None and found.now is not None
    return found


# Ways in which what a cell holds comes to be other numbers ------------------------------------


def assigned(cell, n):
    cell.assign(own(n))


def item_set(cell, n):
    cell[0] = float(n)


def multiplied(cell, n):
    cell *= 0.5 + n


def given_data(cell, n):
    cell.content = own(n).content


def added(cell, n):
    cell.assign(cell.detach() + float(n))


WAYS = [assigned, item_set, multiplied, given_data, added]


@pytest.mark.parametrize("change", WAYS, ids=lambda change: change.__name__)
def test_a_cell_that_is_written_is_seen(change) -> None:
    cell = own()
    function, eager = make(cell)
    for n in range(1, 7):
        warm(function, eager)
        before = eager(X)
        change(cell, n)
        assert not same(eager(X), before)
        checked(function, eager)


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_run_that_writes_in_place_leaves_kept_buffers_alone(calls: int) -> None:
    cell = own()
    function, eager = make(cell)
    bump = hy.hybridize(lambda x: cell.assign(cell + x))
    step = hy.ones(SHAPE)
    for _ in range(3):
        bump(step)
    place = id(cell.content)
    bump(step)
    assert id(cell.content) == place  # it does write in place when nothing is kept
    for _ in range(8):
        warm(function, eager) if calls > 1 else None
        for _ in range(calls):
            checked(function, eager)
        bump(step)
        bump(step)
    checked(function, eager)


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("rule", [hy.optim.SGD, hy.optim.Adam])
def test_steps_of_optimizers_are_seen(rule, hybridized: bool) -> None:
    layer = hy.nn.Conv2d(8, 16, 3, padding=1)
    optimizer = rule(layer.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()

    step = hy.hybridize(step) if hybridized else step
    function = hy.hybridize(lambda x: layer(x))
    for round in range(8):
        with hy.no_grad():
            for _ in range(1 + round % 3):
                assert same(function(X), layer(X))
        for _ in range(1 + round % 2):
            step(X)
    with hy.no_grad():
        assert same(function(X), layer(X))
        assert same(function(X), layer(X))
        assert kept_of(function) is not None


def test_training_keeps_nothing() -> None:
    layer = hy.nn.Conv2d(8, 16, 3, padding=1)
    optimizer = hy.optim.SGD(layer.parameters(), lr=0.1)

    @hy.hybridize
    def step(x):
        optimizer.zero_grad()
        loss = layer(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    step(X)
    assert kept_of(step) is None
    forward = hy.hybridize(lambda x: layer(x))
    forward(X).sum().backward()
    assert kept_of(forward) is None


def test_a_network_that_cannot_train_keeps_though_gradients_are_recorded() -> None:
    """Layers of integers behind one of floats: nobody can go back through them."""
    net = hy.nn.Sequential(hy.nn.Linear(64, 64), hy.nn.Linear(64, 64))
    net = hy.compress.quantize(net, skip=["0"])
    x = tensor(8, 64)
    function = hy.hybridize(lambda x: net(x))
    for _ in range(3):
        assert same(function(x), net(x))
    assert function(x).requires_grad
    found = kept_of(function)
    assert found is not None and found.now is not None


def test_a_loaded_state_is_seen_and_has_memory_of_its_own() -> None:
    layer = hy.nn.Conv2d(8, 16, 3, padding=1).requires_grad_(False)
    function = hy.hybridize(lambda x: layer(x))
    arrays = {name: np.array(value.numpy() * 2) for name, value in layer.state_dict().items()}
    assert same(function(X), layer(X))
    layer.load_state_dict({name: hy.asarray(array) for name, array in arrays.items()})
    assert same(function(X), layer(X))
    before = layer(X)
    for array in arrays.values():
        array[...] = 9.0
    assert same(layer(X), before) and same(function(X), before)
    assert native.owns(layer.weight.content)
    layer.load_state_dict({name: hy.asarray(array) for name, array in arrays.items()}, assign=True)
    assert same(function(X), layer(X))
    arrays["weight"][...] = 4.0  # which assign=True shares
    assert same(function(X), layer(X)) and not same(layer(X), before)


def test_a_mapped_file_that_is_written_to_is_seen(tmp_path) -> None:
    pytest.importorskip("safetensors")
    path = tmp_path / "w.safetensors"
    hy.save(path, {"w": own()})
    cell = hy.load(path)["w"]
    function, eager = make(cell)
    checked(function, eager)
    checked(function, eager)
    before = eager(X)
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(len(data) - 4 * 8)
        file.write(np.full(8, 7.0, np.float32).tobytes())
    assert not same(eager(X), before)
    checked(function, eager)
    assert kept_of(function) is None


# Memory that others write to ------------------------------------------------------------------


def test_an_array_that_a_cell_borrows_takes_no_part() -> None:
    array = np.array(own().numpy())
    cell = hy.asarray(array)
    function, eager = make(cell)
    for value in range(4):
        array[0] = value
        checked(function, eager)
    assert kept_of(function) is None


def test_a_cell_that_comes_to_borrow_is_computed_in_place() -> None:
    cell, array = own(), np.array(own(3).numpy())
    function, eager = make(cell)
    found = warm(function, eager)
    cell.assign(hy.asarray(array))
    for value in range(12):
        array[0] = value
        checked(function, eager)
    cell.assign(own(4))
    for _ in range(2 * precomputed.PAUSE):
        function(X)
    checked(function, eager)
    assert found.now is not None  # again


def written(address: int, value: float) -> None:
    """What a consumer of DLPack that does not heed the flag may do."""
    ctypes.memmove(address, np.full(72, value, np.float32).ctypes.data, 4 * 72)


@pytest.mark.parametrize("alias", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_memory_lent_by_dlpack_is_not_relied_on(early: bool, alias: bool) -> None:
    cell = own()
    given = make_tensor(cell.type, cell.content) if alias else cell
    function, eager = make(cell)
    view = np.from_dlpack(given) if early else None
    checked(function, eager)
    checked(function, eager)
    assert (kept_of(function) is None) == early
    view = np.from_dlpack(given) if view is None else view
    for value in (1.0, 2.0, 3.0):
        before = eager(X)
        written(view.ctypes.data, value)
        assert not same(eager(X), before)
        checked(function, eager)
    cell.assign(own(9))
    warm(function, eager) if not early else checked(function, eager)


def test_other_buffers_that_are_lent_change_nothing() -> None:
    function, eager = make(own())
    found = warm(function, eager)
    other = hy.ones(4)
    np.from_dlpack(other)
    checked(function, eager)
    assert found.now is not None
    assert not buffers.is_own(other.content) and buffers.is_own(hy.ones(4).content)


def test_lent_buffers_are_forgotten_when_they_die() -> None:
    gc.collect()
    count = len(buffers._exported)
    lent = hy.ones(4)
    np.from_dlpack(lent)
    np.from_dlpack(lent)
    assert len(buffers._exported) == count + 1
    del lent
    gc.collect()
    assert len(buffers._exported) == count


def test_arrays_of_values_cannot_be_made_writable() -> None:
    for array in (own().numpy(), np.asarray(own())):
        while isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                array.flags.writeable = True
            array = array.base
        assert memoryview(array).readonly


def test_a_call_that_waits_for_one_that_writes_leaves_no_pointers_behind() -> None:
    cell = own()
    function, eager = make(cell)
    warm(function, eager)
    before, array = cell.content, np.array(own(3).numpy())
    held, let = threading.Event(), threading.Event()

    def hold() -> None:
        with binding.WRITER:
            held.set()
            let.wait()

    for data in (hy.asarray(array).content, before, own(4).content, before):
        held.clear()
        let.clear()
        holder = threading.Thread(target=hold, daemon=True)
        holder.start()
        held.wait()
        cell.content = data
        threading.Timer(0.05, let.set).start()
        got = function(X)  # looks again once the other one has ended
        holder.join()
        assert same(got, eager(X))
        checked(function, eager)


# When it is worth it --------------------------------------------------------------------------


def test_changes_at_every_call_end_in_computing_in_place() -> None:
    cell = own()
    function, eager = make(cell)
    for _ in range(precomputed.PATIENCE + 2):
        cell.assign(cell + 1.0)
        checked(function, eager)
    found = kept_of(function)
    assert found is not None and found.now is None
    made = []
    found._computed, computed = lambda datas: made.append(1) or computed(datas), found._computed
    for _ in range(precomputed.PAUSE - 3):
        cell.assign(cell + 1.0)
        checked(function, eager)
    assert not made
    for _ in range(6):  # later it tries again
        checked(function, eager)
    assert made == [1] and found.now is not None


def test_a_call_now_and_then_between_changes_keeps_on() -> None:
    cell = own()
    function, eager = make(cell)
    for _ in range(3 * precomputed.PATIENCE):
        cell.assign(cell + 1.0)
        warm(function, eager)


def test_no_memory_for_what_is_kept_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    function, eager = make(own())

    def refuse(_nbytes: int) -> None:
        raise hy.errors.OutOfMemoryError("no memory")

    monkeypatch.setattr(precomputed.native, "allocate", refuse)
    with monkeypatch.context():
        got = function(X)
    monkeypatch.undo()
    assert same(got, eager(X))
    warm(function, eager)


def test_what_is_kept_goes_with_the_plan() -> None:
    cell = own()
    function, eager = make(cell)
    found = warm(function, eager)
    gone = [weakref.ref(x) for x in (found, *found.now[2])]
    old = weakref.ref(found.now[1][0])
    assert found.nbytes == sum(t.nbytes for t in found.plan.output_types) > 0
    del found
    cell.assign(own(3))
    checked(function, eager)
    assert old() is None  # the value before is not held
    function.clear()
    gc.collect()
    assert [x() for x in gone] == [None] * len(gone)


def test_all_plans_together_keep_no_more_than_the_limit(monkeypatch) -> None:
    cell = own()
    function, eager = make(cell, dynamic=False)  # a capture for each size
    sizes = [tensor(1, 8, 12, width) for width in range(10, 15)]
    function(sizes[0])
    one = kept_of(function).nbytes
    gc.collect()
    others = sum(k.nbytes for ref in precomputed._holders.values() if (k := ref()) and k.now) - one
    monkeypatch.setattr(precomputed, "LIMIT", others + 3 * one)
    for _ in range(3):
        for x in sizes:
            assert same(function(x), eager(x))
            found = [planned.precomputed for planned in function._table.all()]
            assert sum(k.nbytes for k in found if k.now is not None) <= 3 * one
            assert found[-1].nbytes == one
    for x in (sizes[3],) * 3:
        assert same(function(x), eager(x))
    assert function._table.all()[3].precomputed.now is not None
    monkeypatch.setattr(precomputed, "LIMIT", one - 1)
    function(tensor(1, 8, 12, 20))
    assert function._table.all()[-1].precomputed is None


def test_sizes_of_one_capture_share_what_is_kept() -> None:
    cell = own()
    function, eager = make(cell)
    sizes = [tensor(1, 8, 12, width) for width in range(7, 13)]
    for value in (cell, own(5)):
        cell.assign(value)
        for _ in range(3):
            for x in sizes:
                assert same(function(x), eager(x))
    _, *found = [planned.precomputed for planned in function._table.all()]
    assert len(found) == 5
    assert len(set(found)) == 1
    assert found[0].now is not None


def test_what_is_kept_outlives_the_size_it_was_first_kept_for(monkeypatch) -> None:
    cell = own()
    function, eager = make(cell)
    sizes = [tensor(1, 8, 12, width) for width in range(7, 13)]
    for x in sizes[:2]:
        assert same(function(x), eager(x))
    calls = function.plans[-1].calls
    monkeypatch.setattr(plan_table, "BOUND_NBYTES", 1)  # one size at a time
    for value in (own(5), own(6)):
        cell.assign(value)
        for x in sizes:
            assert same(function(x), eager(x))
            gc.collect()
            calls += 1 if x is not sizes[0] else 0
    (family,) = function._table.open_families.values()
    assert family.captures[0].calls == calls


def test_a_function_without_fixed_cells_pays_nothing() -> None:
    @hy.hybridize
    def function(x, w):
        return functional.conv2d(x, w, padding=1)

    function(X, own())
    (planned,) = function._table.all()
    assert planned.precomputed is None and "precomputed" not in planned.run.source


def test_little_work_is_not_kept() -> None:
    scale = hy.ones(8)
    function = hy.hybridize(lambda x: x * hy.exp(scale))
    function(hy.ones(8))
    assert kept_of(function) is None


# With the rest of the house -------------------------------------------------------------------


def network() -> hy.nn.Module:
    layers = hy.nn.Sequential(
        hy.nn.Conv2d(8, 16, 3, padding=1), hy.nn.BatchNorm2d(16), hy.nn.ReLU(),
        hy.nn.Conv2d(16, 16, 3, padding=1, groups=2), hy.nn.BatchNorm2d(16), hy.nn.ReLU(),
        hy.nn.Conv2d(16, 8, 1), hy.nn.Flatten(), hy.nn.Linear(8 * 144, 5),
    )  # fmt: skip
    return layers.eval().requires_grad_(False)


@pytest.mark.parametrize("optimize", ["exact", "fast"])
def test_networks_give_the_bits_of_runs_that_keep_nothing(optimize: str) -> None:
    model = network()
    function = hy.hybridize(lambda x: model(x), optimize=optimize)
    for _ in range(3):
        got = function(X)
    (planned,) = function._table.all()
    capture, found = planned.capture, planned.precomputed
    assert found.now is not None
    whole = binding.bind(capture, optimized_plan(capture.graph, fast=planned.fast), None, USED)
    assert same(got, whole([X]))
    if optimize == "exact":
        assert same(got, model(X))
    (info,) = function.plans
    assert info.kept_nbytes == found.nbytes and f"{found.nbytes} bytes kept" in info.sizes


def test_graphs_and_maps_over_rows_know_nothing_of_it() -> None:
    cell = own()
    function, eager = make(cell)
    warm(function, eager)
    assert "prepare" not in str(function.graph(X))
    rows = hy.stack([X, X * 2.0])
    got = hy.vmap(function)(rows)
    assert got.shape == (2, 1, 16, 12, 12)
    np.testing.assert_allclose(got[1].numpy(), eager(X * 2.0).numpy(), rtol=1e-4, atol=1e-4)
    checked(function, eager)


def test_state_is_written_beside_what_is_kept() -> None:
    cell, count = own(), hy.zeros(1000)

    def step(x):
        count.assign(count + 1.0)
        return functional.conv2d(x, cell, padding=1) * count[0]

    function = hy.hybridize(step)
    for at in range(1, 5):
        assert same(function(X), functional.conv2d(X, cell, padding=1) * float(at))
    assert kept_of(function).now is not None
    cell.assign(own(2))
    assert same(function(X), functional.conv2d(X, cell, padding=1) * 5.0)
    assert count.tolist() == [5.0] * 1000


def test_threads_never_see_a_mixture() -> None:
    """Each result is that of one value that the cell has had, in their order."""
    cell = hy.zeros(SHAPE) * 1.0
    function, _ = make(cell)
    bump = hy.hybridize(lambda: cell.assign(cell + 1.0))
    x = hy.ones((1, 8, 12, 12))
    step = functional.conv2d(x, hy.ones(SHAPE), padding=1).numpy()
    done = threading.Event()
    failures: list[str] = []

    def look() -> None:
        last = 0.0
        while not done.is_set():
            got = function(x).numpy() / step
            if got.min() != got.max() or got.min() < last:
                failures.append(f"{got.min()} {got.max()} after {last}")
                return
            last = float(got.min())

    threads = [threading.Thread(target=look, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        bump()
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert (function(x).numpy() == 300.0 * step).all()


# Buffers of modules -----------------------------------------------------------------------------


class Holder(hy.nn.Module):
    """A convolution whose kernel is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", own())

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        return functional.conv2d(x, self.kernel, padding=1)


def replaced_buffer(holder, n):
    holder.kernel = own(n)


def of_the_buffer(change):
    return lambda holder, n: change(holder.kernel, n)


BUFFER_WAYS = {"replaced": replaced_buffer} | {way.__name__: of_the_buffer(way) for way in WAYS}


@pytest.mark.parametrize("change", BUFFER_WAYS)
def test_a_buffer_that_is_written_or_replaced_is_seen(change) -> None:
    holder = Holder()
    function = hy.hybridize(lambda x: holder(x))
    for n in range(1, 7):
        found = warm(function, holder)
        assert found.nbytes > 0
        before = holder(X)
        BUFFER_WAYS[change](holder, n)
        assert not same(holder(X), before)
        checked(function, holder)


def test_a_buffer_that_is_lent_is_not_relied_on() -> None:
    holder = Holder()
    function = hy.hybridize(lambda x: holder(x))
    warm(function, holder)
    view = np.from_dlpack(holder.kernel)
    for value in (1.0, 2.0):
        before = holder(X)
        written(view.ctypes.data, value)
        assert not same(holder(X), before)
        checked(function, holder)


def test_a_buffer_that_the_run_replaces_takes_no_part() -> None:
    holder = Holder()

    def eager(x):
        y = functional.conv2d(x, holder.kernel, padding=1)
        holder.kernel = holder.kernel * 0.5
        return y

    function = hy.hybridize(eager)
    first = holder.kernel
    for _ in range(3):
        function(X)
    got = function(X)
    assert kept_of(function) is None
    holder.kernel = first
    for _ in range(3):
        eager(X)
    assert same(got, eager(X))
