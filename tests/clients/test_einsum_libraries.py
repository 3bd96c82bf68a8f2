"""einops and opt_einsum take tensors as they take arrays, eagerly and in graphs."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from tests.helpers import same

X = np.random.default_rng(0).random((2, 3, 4, 5))


def rearranged(x, einops):
    rows = einops.rearrange(x, "b c h w -> b (h w) c")
    means = einops.reduce(rows, "b n c -> b c", "mean")
    most = einops.reduce(x, "b c (h k) w -> b c h w", "max", k=2)
    wide = einops.repeat(means, "b c -> b c k", k=3)
    packed, _ = einops.pack([wide, most], "b c *")
    return (
        packed,
        einops.einsum(wide, wide, "b c k, b d k -> b c d"),
        einops.parse_shape(x, "b _ h w"),
    )


def test_einops():
    einops = pytest.importorskip("einops")
    x = hy.asarray(X)
    eager = rearranged(x, einops)
    captured = hy.hybridize(lambda x: rearranged(x, einops))(x)
    for got, other, want in zip(eager[:2], captured, rearranged(X, einops), strict=False):
        assert same(got, other)
        np.testing.assert_allclose(got.numpy(), want)
    assert eager[2] == captured[2] == {"b": 2, "h": 4, "w": 5}
    hy.check_grads(lambda x: rearranged(x, einops)[0], x)


def printed(code: str, folder: Path) -> str:
    """What a program prints that runs in ``folder`` and finds the package where this one does."""
    path = str(Path(hy.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path},
    )
    return done.stdout


@pytest.mark.parametrize("order", ["import einops, hybrid as hy", "import hybrid as hy, einops"])
def test_einops_may_be_imported_first_or_last(order, tmp_path):
    pytest.importorskip("einops")
    code = f"{order}; print(einops.rearrange(hy.ones((2, 3)), 'a b -> b a').shape)"
    assert printed(code, tmp_path) == "(3, 2)\n"


def test_this_package_does_not_import_einops(tmp_path):
    code = "import hybrid, sys; print('einops' in sys.modules)"
    assert printed(code, tmp_path) == "False\n"


@pytest.mark.parametrize(
    "equation", ["ij,jk,kl->il", "ij,jk,kl->li", "ij,ji->", "ij,ij,jk->k", "ii->i", "ij,kl->lkji"]
)
def test_opt_einsum(equation):
    opt_einsum = pytest.importorskip("opt_einsum")
    count = equation.split("->")[0].count(",") + 1
    arrays = list(np.random.default_rng(1).random((count, 4, 4)))
    tensors = [hy.asarray(x) for x in arrays]
    eager = opt_einsum.contract(equation, *tensors)
    captured = hy.hybridize(lambda *xs: opt_einsum.contract(equation, *xs))(*tensors)
    assert same(eager, captured)
    np.testing.assert_allclose(eager.numpy(), np.einsum(equation, *arrays))
    hy.check_grads(lambda *xs: opt_einsum.contract(equation, *xs), *arrays)


def test_a_contract_expression_with_constants():
    opt_einsum = pytest.importorskip("opt_einsum")
    a, b, c = np.random.default_rng(2).random((3, 4, 4))
    expression = opt_einsum.contract_expression(
        "ij,jk,kl->il", a.shape, hy.asarray(b), c.shape, constants=[1]
    )
    np.testing.assert_allclose(expression(hy.asarray(a), hy.asarray(c)).numpy(), a @ b @ c)
