"""Calls of array functions that are looked up: same results, same errors, same histories."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import HybridError
from hybrid.memory import native
from hybrid.ops.support.call_cache import CALLS_BEFORE_LEARNING, CALLS_BEFORE_PLANNING
from tests.helpers import same

EARLY = CALLS_BEFORE_LEARNING + CALLS_BEFORE_PLANNING
X = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
CALLS = {
    "one op": lambda x: hy.sum(x, axis=1),
    "a view": lambda x: hy.reshape(x, (3, 8)),
    "several ops": lambda x: hy.std(x, axis=0, correction=1),
    "a constant": lambda x: hy.tril(x, k=1),
    "numbers": lambda x: hy.clip(x, -0.5, 0.5),
    "two tensors": lambda x: hy.logaddexp(x, x * 2.0),
    "one tensor twice": lambda x: hy.logaddexp(x, x),
    "no op": lambda x: hy.broadcast_to(x, x.shape),
    "an infinity": lambda x: hy.vector_norm(x, ord=float("inf")),
    "a key": lambda x: x[1],
    "a key of slices": lambda x: x[:, None, 1::2],
    "a list": lambda x: hy.concat([x, x * 2.0], axis=1),
    "one tensor twice in a list": lambda x: hy.stack([x, x]),
    "a list of one": lambda x: hy.concat([x]),
    "three tensors": lambda x: hy.where(x > 0.0, x, x * 2.0),
    "a text and tensors": lambda x: hy.einsum("ij,kj->ik", x, x),
    "zeros of both signs": lambda x: hy.clip(x, -0.0, 0.0),
    "another shape before": lambda x: hy.repeat(x, 3),
    "a number of zero": lambda x: hy.maximum(x, 0.0) * -0.0,
    "a loss": lambda x: hy.nn.functional.huber_loss(x, x * 0.5, reduction="none"),
    "a loss of classes": lambda x: hy.nn.functional.cross_entropy(x, hy.asarray([1, 0, 5, 2])),
    "a norm": lambda x: hy.nn.functional.layer_norm(x, (6,), x[0] * 2.0, bias=x[1]),
    "a convolution": lambda x: hy.nn.functional.conv1d(x[None], x[None, :, :3], x[0, :1]),
}
LISTS = {
    "a list": lambda x: hy.split(x, 2),
    "a tuple": lambda x: hy.unstack(x, axis=1),
    "a named tuple": lambda x: hy.linalg.slogdet(x[:, :4]),
    "two of many ops": lambda x: hy.topk(x, 2, axis=0),
    "of lists": lambda x: hy.meshgrid(x[0], x[1], x[0]),
    "a part that is all": lambda x: hy.split(x, len(x)),
    "none": lambda x: hy.split(x[:0], 1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_later_calls_give_the_bits_of_the_first(call):
    x = hy.asarray(X)
    first = call(x)
    for _ in range(EARLY + 3):
        assert same(call(hy.asarray(X)), first)
        other = hy.asarray(X[::-1].copy())
        assert same(call(other), call(other))
    np.testing.assert_array_equal(call(hy.asarray(-X)).numpy(), hy.hybridize(call)(-X).numpy())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_histories_are_those_of_the_ops(call):
    def total(x):
        return hy.sum(call(x) * 2.0)

    x = hy.asarray(X)
    first = hy.grad(total)(x)
    for _ in range(EARLY + 3):
        call(x)
        assert same(hy.grad(total)(x), first)


def test_zeros_of_either_sign_are_told_apart():
    x = hy.asarray(np.float32([-1, 1]))
    for _ in range(EARLY + 3):
        assert np.signbit(hy.clip(x, -0.0, 5.0).numpy()[0])
        assert not np.signbit(hy.clip(x, 0.0, 5.0).numpy()[0])


def test_equal_arguments_of_other_kinds_are_others():
    x = hy.asarray(X)
    for _ in range(EARLY + 2):
        assert hy.sum(x, 1).shape == (4,)
        with pytest.raises(HybridError):
            hy.sum(x, 1.0)
        with pytest.raises(HybridError, match="axis 2"):
            hy.sum(x, axis=2)


def test_what_a_call_gives_is_a_cell_of_its_own():
    x = hy.asarray(X)
    for call in CALLS.values():
        for _ in range(EARLY + 3):
            y, z = call(x), call(x)
            before = z.numpy().copy()
            if y is not x:
                y *= 0.0
            np.testing.assert_array_equal(z.numpy(), before)


def test_makers_give_cells_of_their_own():
    for _ in range(EARLY + 3):
        for make, expected in (
            (lambda: hy.zeros((2,)), [0, 0]),
            (lambda: hy.ones(2, dtype=hy.int32), [1, 1]),
            (lambda: hy.full((2,), 1.5), [1.5, 1.5]),
            (lambda: hy.full(2, -0.0), [0, 0]),
            (lambda: hy.full([2], True), [True, True]),
        ):
            x = make()
            assert x.tolist() == expected and make() is not x
            x[0] = 5
            assert make().tolist() == expected
    assert np.signbit(hy.full(2, -0.0).numpy()).all()
    assert hy.full(1, 1).dtype is hy.int64 and hy.full(1, True).dtype is hy.bool


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS)
def test_several_results_stay_what_they_are(call):
    x = hy.asarray(X)
    first = call(x)
    for _ in range(EARLY + 3):
        found = call(hy.asarray(X))
        assert type(found) is type(first) and len(found) == len(first)
        assert all(map(same, found, first))
        assert len({id(part) for part in found}) == len(found)
        for part in found:
            part *= 0
    assert same(x, hy.asarray(X))


def test_a_list_given_twice_is_two():
    x, y = hy.asarray(X), hy.asarray(-X)
    for _ in range(EARLY + 3):
        np.testing.assert_array_equal(hy.concat([x, x]).numpy(), np.concatenate([X, X]))
        np.testing.assert_array_equal(hy.concat([x, y]).numpy(), np.concatenate([X, -X]))
        np.testing.assert_array_equal(hy.concat((y, x)).numpy(), np.concatenate([-X, X]))
        assert hy.stack([x, 1.0 * y], axis=1).shape == (4, 2, 6)
        with pytest.raises(HybridError, match="cannot join"):
            hy.concat([x, y[:, :2]])


def test_more_makers_give_cells_of_their_own():
    for _ in range(EARLY + 3):
        for make, expected in (
            (lambda: hy.arange(3), [0, 1, 2]),
            (lambda: hy.arange(0.0, 1.0, 0.5), [0.0, 0.5]),
            (lambda: hy.linspace(0.0, 1.0, 3), [0.0, 0.5, 1.0]),
            (lambda: hy.linspace(-0.0, 1.0, 2), [0.0, 1.0]),
            (lambda: hy.eye(2), [[1, 0], [0, 1]]),
        ):
            x = make()
            assert x.tolist() == expected
            x[0] = 5
            np.from_dlpack(make())
            assert make().tolist() == expected


def test_constants_of_zero_have_a_sign():
    x = hy.asarray(np.float32([1, -1]))
    for _ in range(3):
        assert np.signbit((x * 0.0).numpy()).tolist() == [False, True]
        assert np.signbit((x * -0.0).numpy()).tolist() == [True, False]
        assert np.signbit(hy.maximum(x * 0.0, -1.0).numpy()).tolist() == [False, True]
        assert (x * 0).dtype is hy.float32 and (x * False).tolist() == [0.0, 0.0]


def test_large_constants_are_not_kept():
    x = hy.asarray(np.ones((100, 100), np.float32))
    for _ in range(EARLY + 3):
        np.testing.assert_array_equal(hy.tril(x).numpy(), np.tril(x.numpy()))


def test_tensors_anywhere_among_the_arguments():
    x, w, b = hy.asarray(X), hy.asarray(X[:3] * 0.5), hy.asarray(X[0, :3])
    targets, weight = hy.asarray([0, 2, 5, 1]), hy.asarray(np.arange(6, dtype=np.float32))
    first: list[hy.Tensor] = []
    for _ in range(EARLY + 3):
        found = hy.nn.functional.linear(x, w, bias=b)
        np.testing.assert_allclose(found.numpy(), X @ (X[:3].T * 0.5) + X[0, :3], rtol=1e-5)
        plain = hy.nn.functional.linear(x, w)
        np.testing.assert_allclose(plain.numpy(), X @ (X[:3].T * 0.5), rtol=1e-5)
        losses = [
            hy.nn.functional.cross_entropy(x, targets),
            hy.nn.functional.cross_entropy(x, targets, weight),
            hy.nn.functional.cross_entropy(x, targets, weight=weight, reduction="sum"),
            hy.nn.functional.cross_entropy(x, targets, label_smoothing=0.1),
            hy.nn.functional.cross_entropy(x, hy.softmax(x)),
        ]
        first = first or losses
        assert all(map(same, losses, first)) and len({float(v) for v in losses}) == 5


def test_no_history_is_kept_where_none_is_recorded():
    x, w = hy.asarray(X), hy.nn.Parameter(hy.asarray(X[:3]))
    for _ in range(EARLY + 3):
        with hy.no_grad():
            quiet = hy.nn.functional.linear(x, w)
        kept = hy.nn.functional.linear(x, w)
        assert not quiet.requires_grad and kept.requires_grad and same(quiet, kept.detach())
        w.assign(w.detach() * 1.5)


def test_running_statistics_are_written_at_every_call():
    x = hy.asarray(np.random.default_rng(1).standard_normal((5, 3)).astype("float32"))
    norm = hy.nn.BatchNorm1d(3)
    means = set()
    with hy.no_grad():
        for _ in range(EARLY + 5):
            norm(x)
            means.add(float(norm.running_mean[0]))
    assert len(means) == EARLY + 5


def test_a_type_in_the_place_of_a_tensor_is_no_tensor():
    x, w = hy.asarray(X), hy.asarray(X[:3])
    for _ in range(EARLY + 3):
        hy.nn.functional.linear(x, w)
    with pytest.raises(HybridError):
        hy.nn.functional.linear(x, w.type)


def test_who_writes_to_a_lent_result_changes_no_later_one():
    for _ in range(EARLY + 2):
        made = hy.full((3, 3), 7.5)
        assert made.tolist() == [[7.5] * 3] * 3
        np.from_dlpack(made)
        native.view(made.content, made.type.nbytes)[:] = bytes(made.type.nbytes)
