"""Models that PyTorch has exported, by both exporters: with batches of any size, and training."""

from __future__ import annotations

import numpy as np
import pytest

import hybrid as hy
from tests.onnx.torch_models import FOLDER

FILES = sorted(path.stem for path in FOLDER.glob("*.onnx"))


def test_there_are_files_of_both_exporters() -> None:
    assert {name.rpartition("_")[2] for name in FILES} == {"old", "dynamo"} and len(FILES) == 9


@pytest.mark.parametrize("name", [name for name in FILES if not name.startswith("looping")])
def test_they_compute_what_pytorch_does(name: str) -> None:
    module = hy.onnx.load(FOLDER / f"{name}.onnx")
    with np.load(FOLDER / f"{name.rpartition('_')[0]}.npz") as file:
        arrays = dict(file)
    inputs = [hy.asarray(arrays[key]) for key in ("x", "more_x")]
    eager = [module(x).numpy() for x in inputs]
    for found, key in zip(eager, ("y", "more_y"), strict=True):
        np.testing.assert_allclose(found, arrays[key], rtol=1e-4, atol=1e-6)
    module.hybridize()
    for _ in range(2):
        for x, found in zip(inputs, eager, strict=True):
            assert np.array_equal(module(x).numpy(), found)


def test_a_scripted_loop_is_one_graph() -> None:
    module = hy.onnx.load(FOLDER / "looping_old.onnx")
    assert "for i_1 in range(count(n)):" in module.source()
    with np.load(FOLDER / "looping.npz") as arrays:
        for hybridized in (False, True):
            if hybridized:
                module.hybridize()
            for n in (0, 1, 4, 9):
                found = module(hy.asarray(np.ones(3, np.float32)), hy.asarray(n))
                assert np.array_equal(found.numpy(), arrays[f"y{n}"])
    assert len(module.plans) == 1


def test_what_pytorch_trains_is_trained() -> None:
    module = hy.onnx.load(FOLDER / "writer_old.onnx")
    names = {name for name, _ in module.named_parameters()}
    assert {"table.weight", "places", "norm.weight", "norm.bias", "qkv.bias", "head.bias"} <= names
    with np.load(FOLDER / "writer.npz") as arrays:
        x = hy.asarray(arrays["x"])
    optimizer = hy.optim.AdamW(module.parameters(), lr=1e-2)

    @hy.hybridize
    def step(x: hy.Tensor) -> hy.Tensor:
        loss = hy.nn.functional.cross_entropy(
            module(x)[:, :-1].reshape(-1, 50), x[:, 1:].reshape(-1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(12)]
    assert losses[-1] < losses[0] / 4
    assert all(p.grad is not None for p in module.parameters())
