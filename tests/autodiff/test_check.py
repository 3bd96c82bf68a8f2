"""check_grads: passes what is right, and says what is wrong."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.autodiff import check
from hybrid.errors import GradientError

X = np.array([0.5, 1.5])


def test_right_derivatives_pass() -> None:
    hy.check_grads(lambda x: hy.exp(x) * x, X)
    hy.check_grads(lambda x, y: x @ y, np.ones((2, 3)), np.ones((3, 1)), order=2)
    hy.check_grads(lambda x: hy.sum(x), 2.0)
    hy.check_grads(hy.hybridize(lambda x: hy.tanh(x)), hy.asarray(X.astype(np.float32)), order=2)


def test_wrong_derivatives_are_found() -> None:
    with pytest.raises(GradientError) as caught:
        hy.check_grads(lambda x: hy.stop_gradient(x) * x, X)
    text = str(caught.value)
    assert text.startswith("the first derivative is wrong: the vjp gives ")
    assert ", differences give " in text


def test_wrong_second_derivatives_are_found() -> None:
    def function(x):
        slope = hy.stop_gradient(hy.exp(x))  # right once: the derivative of exp is exp
        return slope * x - hy.stop_gradient(slope * x) + hy.stop_gradient(hy.exp(x))

    hy.check_grads(function, X)
    with pytest.raises(GradientError, match="the second derivative is wrong"):
        hy.check_grads(function, X, order=2)


@pytest.mark.parametrize(
    ("name", "message"),
    [("jvp", "the first derivative is wrong: the jvp gives"), ("vjp", "the vjp gives")],
)
def test_each_mode_is_compared_with_differences(monkeypatch, name, message) -> None:
    right = getattr(check, name)

    def wrong_jvp(function, primals, directions):
        out, tangent = right(function, primals, directions)
        return out, tangent * 1.01

    def wrong_vjp(function, *primals):
        out, pullback = right(function, *primals)
        return out, lambda ct: tuple(c * 1.01 for c in pullback(ct))

    monkeypatch.setattr(check, name, wrong_jvp if name == "jvp" else wrong_vjp)
    with pytest.raises(GradientError, match=message):
        hy.check_grads(hy.exp, X)


def test_the_modes_are_compared_more_finely_than_with_differences(monkeypatch) -> None:
    right = check.jvp

    def slightly_off(function, primals, directions):
        out, tangent = right(function, primals, directions)
        return out, tangent * (1 + 1e-7)

    monkeypatch.setattr(check, "jvp", slightly_off)
    with pytest.raises(GradientError, match="jvp and vjp disagree: "):
        hy.check_grads(hy.exp, X)
