"""Losses of distillation against their formulas in NumPy, and their gradients."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid.compress import distillation_loss, losses
from hybrid.errors import ArgumentError, ArgumentTypeError, AxisError, DTypeError, ShapeError
from tests.helpers import value_bits

F64 = np.float64


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(0, 2, shape).astype(np.float32)


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x.astype(F64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def kl(p: np.ndarray, q: np.ndarray, axis: int = -1) -> float:
    """The mean over rows of ``sum p log(p / q)``."""
    return float(np.mean(np.sum(p * np.log(p / q), axis)))


def entropy(x: np.ndarray, labels: np.ndarray, axis: int = -1) -> float:
    picked = np.take_along_axis(np.log(softmax(x, axis)), np.expand_dims(labels, axis), axis)
    return float(-picked.mean())


# The loss of outputs -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7, 10), (3, 4, 5), (6,), (1, 1)])
@pytest.mark.parametrize(("temperature", "weight"), [(4.0, 0.9), (1.0, 0.5), (0.5, 0.0), (2, 1)])
def test_the_formula(shape: tuple[int, ...], temperature: float, weight: float) -> None:
    s, t = normal(*shape), normal(*shape, seed=1)
    labels = np.random.default_rng(2).integers(0, shape[-1], shape[:-1])
    soft = temperature**2 * kl(softmax(t / temperature), softmax(s / temperature))
    got = distillation_loss(s, t, labels, temperature=temperature, weight=weight)
    expected = weight * soft + (1 - weight) * entropy(s, labels)
    assert got.shape == () and got.dtype is hy.float32
    assert got.item() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    alone = distillation_loss(s, t, temperature=temperature, weight=weight)
    assert alone.item() == pytest.approx(soft, rel=1e-5, abs=1e-6)


def test_classes_may_lie_along_another_axis() -> None:
    s, t = normal(2, 5, 3, 3), normal(2, 5, 3, 3, seed=1)
    labels = np.random.default_rng(2).integers(0, 5, (2, 3, 3))
    moved = [np.moveaxis(x, 1, -1) for x in (s, t)]
    got = distillation_loss(s, t, labels, axis=1)
    assert got.item() == pytest.approx(distillation_loss(*moved, labels).item(), rel=1e-6)
    assert distillation_loss(s, t, labels, axis=-3).item() == got.item()


def test_labels_may_be_probabilities() -> None:
    s, t = normal(5, 4), normal(5, 4, seed=1)
    labels = np.array([0, 3, 1, 1, 2])
    one_hot = np.eye(4, dtype=np.float32)[labels]
    got = distillation_loss(s, t, one_hot)
    assert got.item() == pytest.approx(distillation_loss(s, t, labels).item(), rel=1e-6)


def test_a_student_that_says_the_same_has_no_loss() -> None:
    t = normal(5, 4)
    assert distillation_loss(t, t).item() == 0
    assert distillation_loss(t + 3, t).item() == pytest.approx(0, abs=1e-5)


def test_very_sure_teachers_and_ruled_out_classes() -> None:
    s, t = normal(3, 4), np.array([[1000, 0, -1000, 0]] * 3, np.float32)
    expected = -np.log(softmax(s / 4))[:, 0].mean() * 16
    assert distillation_loss(s, t).item() == pytest.approx(expected, rel=1e-5)
    t[:, 2] = -np.inf
    assert distillation_loss(s, t).item() == pytest.approx(expected, rel=1e-5)


def test_what_has_no_weight_is_not_looked_at() -> None:
    s, t, labels = normal(3, 4), normal(3, 4, seed=1), np.array([0, 1, 2])
    unsure = np.full_like(t, np.nan)
    assert np.isnan(distillation_loss(s, unsure, labels).item())
    only_labels = distillation_loss(s, unsure, labels, weight=0)
    assert only_labels.item() == pytest.approx(entropy(s, labels), rel=1e-5)
    s[:, :3], t[:, :3] = -np.inf, -np.inf  # the labels are ruled out: their entropy is infinite
    assert distillation_loss(s, t, labels, weight=1).item() == 0


def test_the_gradient_by_the_student() -> None:
    """``weight T (softmax(s / T) - softmax(t / T)) / n + (1 - weight) (softmax(s) - y) / n``."""
    s, t, labels = normal(6, 5), normal(6, 5, seed=1), np.array([0, 1, 2, 3, 4, 0])
    grad = hy.grad(lambda x: distillation_loss(x, t, labels, temperature=3.0, weight=0.7))
    expected = 0.7 * 3 * (softmax(s / 3) - softmax(t / 3)) / 6
    expected += 0.3 * (softmax(s) - np.eye(5)[labels]) / 6
    np.testing.assert_allclose(np.asarray(grad(hy.asarray(s))), expected, atol=1e-6)


TERMS: dict[str, Any] = {
    "distillation_loss": distillation_loss,
    "hint": losses.hint,
    "cosine": losses.cosine,
    "relation": functools.partial(losses.relation, heads=2),
}


@pytest.mark.parametrize("name", TERMS)
def test_gradients_go_to_the_student_alone(name: str) -> None:
    s, t = (hy.asarray(normal(2, 3, 4, seed=n).astype(F64)) for n in range(2))
    hy.check_grads(lambda x: TERMS[name](x, t), s)
    by_teacher = hy.grad(TERMS[name], argnums=1)(s, t)
    assert not np.asarray(by_teacher).any()


@pytest.mark.parametrize("name", TERMS)
def test_hybridized_bits(name: str) -> None:
    s, t = (hy.asarray(normal(2, 3, 4, seed=n)) for n in range(2))
    with_gradient = hy.value_and_grad(TERMS[name])
    for eager, captured in zip(with_gradient(s, t), hy.hybridize(with_gradient)(s, t), strict=True):
        assert value_bits(eager) == value_bits(captured)


@pytest.mark.parametrize("name", TERMS)
def test_the_student_s_dtype_is_that_of_the_loss(name: str) -> None:
    s, t = normal(2, 3, 4), normal(2, 3, 4, seed=1)
    assert TERMS[name](s, t.astype(F64)).dtype is hy.float32
    assert TERMS[name](s.astype(F64), t).dtype is hy.float64


# Terms between layers ----------------------------------------------------------------------------


def test_hint_is_half_the_mean_of_squares() -> None:
    s, t = normal(4, 3, 2), normal(4, 3, 2, seed=1)
    assert losses.hint(s, t).item() == pytest.approx(np.mean((s - t) ** 2) / 2, rel=1e-6)
    assert losses.hint(np.float32([1, 2]), np.float32([3, 5])).item() == (4 + 9) / 2 / 2


def test_cosine_counts_directions() -> None:
    s, t = normal(4, 3), normal(4, 3, seed=1)
    angles = (s * t).sum(1) / np.linalg.norm(s, axis=1) / np.linalg.norm(t, axis=1)
    assert losses.cosine(s, t).item() == pytest.approx(1 - angles.mean(), rel=1e-5)
    assert losses.cosine(s, 5 * s).item() == pytest.approx(0, abs=1e-6)
    assert losses.cosine(s, -s).item() == pytest.approx(2, rel=1e-6)
    across = losses.cosine(s.T, t.T, axis=0).item()
    assert across == pytest.approx(losses.cosine(s, t).item(), rel=1e-6)


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_relation_is_minilm_s_term_for_any_two_widths(heads: int) -> None:
    s, t = normal(2, 5, 8), normal(2, 5, 12, seed=1)

    def relations(x: np.ndarray) -> np.ndarray:
        width = x.shape[-1] // heads
        parts = [x[..., h * width : (h + 1) * width].astype(F64) for h in range(heads)]
        return np.stack([softmax(p @ p.swapaxes(-1, -2) / width**0.5) for p in parts])

    expected = kl(relations(t), relations(s))
    assert losses.relation(s, t, heads=heads).item() == pytest.approx(expected, rel=1e-4)
    assert losses.relation(s[0], t[0], heads=heads).item() > 0


# Bad input ---------------------------------------------------------------------------------------


def refused(kind: type, call: Any) -> str:
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, np.inf])
def test_temperatures_are_above_zero(temperature: float) -> None:
    x = normal(2, 3)
    text = refused(ArgumentError, lambda: distillation_loss(x, x, temperature=temperature))
    assert text.startswith(f"temperature is {temperature}\n")


@pytest.mark.parametrize("weight", [-0.1, 1.1, np.nan])
def test_weights_are_shares(weight: float) -> None:
    x = normal(2, 3)
    text = refused(ArgumentError, lambda: distillation_loss(x, x, weight=weight))
    assert text.startswith(f"weight is {weight}\n")


def test_texts() -> None:
    x = normal(2, 3)
    assert refused(ArgumentError, lambda: distillation_loss(x, x, temperature=0)) == (
        "temperature is 0\nLogits are divided by it.\nFix: give a number above 0."
    )
    assert refused(ArgumentError, lambda: distillation_loss(x, x, weight=2)) == (
        "weight is 2\n"
        "It is the share of the teacher; that of the labels is the rest.\n"
        "Fix: give a number from 0 to 1."
    )
    assert refused(ShapeError, lambda: distillation_loss(x, normal(2, 4))) == (
        "the student gives f32[2,3], the teacher f32[2,4]\n"
        "Both give a logit for each class, and are compared class by class.\n"
        "Fix: let them end with as many classes."
    )
    assert refused(ShapeError, lambda: losses.hint(x, normal(2, 4))) == (
        "hint cannot take f32[2,3] and f32[2,4]\n"
        "They are compared element by element.\n"
        "Fix: map one to the shape of the other, or let distill learn such a map."
    )
    assert refused(ShapeError, lambda: losses.relation(x, normal(3, 3))) == (
        "relation cannot take f32[2,3] and f32[3,3]\n"
        "Both have the shape [..., tokens, width], with the same tokens.\n"
        "Fix: choose layers whose outputs differ in their width alone."
    )
    assert refused(ArgumentError, lambda: losses.relation(x, x, heads=2)) == (
        "relation cannot make 2 heads of f32[2,3]\n"
        "Fix: give a number that divides the widths of both student and teacher."
    )


@pytest.mark.parametrize("weight", [0, 0.5, 1])
@pytest.mark.parametrize(
    "labels", [np.zeros(3, int), np.zeros((2, 3), int), np.zeros(2, np.float32), np.int64(1)]
)
def test_labels_of_other_shapes(labels: np.ndarray, weight: float) -> None:
    x = normal(2, 3)
    text = refused(ShapeError, lambda: distillation_loss(x, x, labels, weight=weight))
    assert text == (
        f"labels are {hy.asarray(labels).type} for logits f32[2,3]\n"
        "Class numbers have the shape [2], probabilities that of the logits.\n"
        "Fix: give as many labels as there are rows of logits."
    )


def test_other_mistakes() -> None:
    x = normal(2, 3)
    refused(ArgumentTypeError, lambda: distillation_loss(x, x, temperature="4"))
    refused(ArgumentTypeError, lambda: distillation_loss(x, x, weight=True))
    refused(AxisError, lambda: distillation_loss(x, x, axis=2))
    refused(ShapeError, lambda: losses.cosine(x, normal(3, 3)))
    refused(ShapeError, lambda: losses.relation(normal(3), normal(3)))
    refused(IndexError, lambda: distillation_loss(x, x, np.array([0, 3])))
    for name, term in TERMS.items():
        assert name in refused(DTypeError, lambda term=term: term(np.array([[1, 2]]), x))
    for heads in (0, -1, 1.0, True):
        refused(ArgumentError, lambda heads=heads: losses.relation(x, x, heads=heads))
