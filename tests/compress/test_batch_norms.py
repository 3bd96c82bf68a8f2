"""Batch norms that are folded into the layers before them, and those that are not."""

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.compress.batch_norms import NORMS, fold_norms


class Residual(nn.Module):
    """A block whose last convolution is read twice, so that its norm must stay."""

    def __init__(self, twice: bool = False) -> None:
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.second, self.after = nn.Conv2d(4, 3, 1), nn.BatchNorm2d(3, affine=False)
        self.twice = twice

    def forward(self, x: hy.Tensor) -> hy.Tensor:
        y = self.second(nn.functional.relu(self.norm(self.first(x))))
        return self.after(y) + (y if self.twice else x)


def lived_in(net: nn.Module) -> nn.Module:
    draw = np.random.RandomState(0)
    for module in net.modules():
        if isinstance(module, NORMS) and module.running_mean is not None:
            count = module.num_features
            module.running_mean.assign(draw.randn(count).astype(np.float32))
            module.running_var.assign((draw.rand(count) + 0.1).astype(np.float32))
            if module.weight is not None:
                with hy.no_grad():
                    module.weight.assign(draw.randn(count).astype(np.float32))
                    module.bias.assign(draw.randn(count).astype(np.float32))
    return net


NETS = {
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5)), (2, 3, 9), 1),
    "conv2d": (lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)), (2, 3, 9, 9), 1),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)), (2, 2, 4, 4, 4), 1),
    "groups": (
        lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=4, bias=False), nn.BatchNorm2d(8)),
        (2, 4, 9, 9), 1,
    ),
    "linear": (lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU()), (7, 6), 1),
    "residual": (Residual, (2, 3, 8, 8), 2),
    "read twice": (lambda: Residual(True), (2, 3, 8, 8), 1),
    "behind a relu": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.BatchNorm1d(5)), (7, 6), 0,
    ),
    "untracked": (
        lambda: nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5, track_running_stats=False)),
        (7, 6), 0,
    ),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose1d(3, 5, 3), nn.BatchNorm1d(5)), (2, 3, 9), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_what_is_folded_computes_the_same(name: str) -> None:
    make, shape, count = NETS[name]
    hy.random.seed(0)
    net = lived_in(make())
    x = hy.asarray(np.random.RandomState(1).randn(*shape).astype(np.float32))
    made = fold_norms(net, x)
    gone = [m for m in made.modules() if isinstance(m, nn.Identity)]
    assert len(gone) == count
    assert net.training and not any(isinstance(m, nn.Identity) for m in net.modules())
    want = net.eval()(x).numpy()
    assert np.allclose(made.eval()(x).numpy(), want, rtol=2e-4, atol=2e-5)


def test_a_layer_that_is_called_twice_stays() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.layer, self.norm = nn.Linear(5, 5), nn.BatchNorm1d(5)

        def forward(self, x: hy.Tensor) -> hy.Tensor:
            return self.layer(self.norm(self.layer(x)))

    net, x = lived_in(Twice()), hy.ones((3, 5))
    made = fold_norms(net, x)
    assert isinstance(made.norm, nn.BatchNorm1d)
    assert (made.eval()(x).numpy() == net.eval()(x).numpy()).all()
