"""An error in a model names the layer by its path, its settings and what came."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import hybrid as hy
from hybrid import nn
from hybrid.errors import ShapeError


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, 5)
        self.norm = nn.LayerNorm(5)

    def forward(self, x: Any) -> Any:
        return self.norm(self.fc(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(31), Block(31)])
        self.head = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Linear(5, 2)))

    def forward(self, x: Any, *, deep: bool = True) -> Any:
        for layer in self.layers if deep else self.layers[:1]:
            x = layer(x)
        return self.head(x)


LINEAR = "Linear(in_features=31, out_features=5, bias=True) got f32[4,5]; it takes [..., 31]"
TEXT = f"""\
matmul cannot take f32[4,5] and f32[31,5]
In layers.1.fc: {LINEAR}
Fix: make it Linear(in_features=5, ...), or change the shape of what it is given."""


@pytest.mark.parametrize("way", ["eager", "hybridized", "function", "block", "hooks"])
def test_the_path_of_the_layer(way: str) -> None:
    net = Net()
    call: Any = net
    if way == "hybridized":
        net.hybridize()
    if way == "function":
        call = hy.hybridize(lambda x: net(x) * 2)
    if way == "block":
        net.layers[1].hybridize()
    if way == "hooks":
        net.layers[1].register_forward_hook(lambda *_: None)
    with pytest.raises(ShapeError) as caught:
        call(hy.ones((4, 31)))
    assert str(caught.value) == TEXT
    assert str(pickle.loads(pickle.dumps(caught.value))) == TEXT


def test_of_the_model_that_was_called() -> None:
    net = Net()
    with pytest.raises(ShapeError) as caught:
        net.layers[1](hy.ones((4, 5)))
    assert f"\nIn fc: {LINEAR}\n" in str(caught.value)
    with pytest.raises(ShapeError) as caught:
        net.layers[1].fc(hy.ones((4, 5)))
    assert f"\n{LINEAR}\n" in str(caught.value)  # the layer itself was called


def test_in_containers_by_their_names() -> None:
    net = Net()
    with pytest.raises(ShapeError) as caught:
        net.head(hy.ones((4, 3)))
    assert (
        "\nIn 1.0: Linear(in_features=5, out_features=2, bias=True) got f32[4,3]; it takes"
        in str(caught.value)
    )


def test_several_arguments() -> None:
    class Two(nn.Module):
        def forward(self, x: Any, rest: Any, *, flag: bool) -> Any:
            return x @ rest[0]

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.two = Two()

        def forward(self, x: Any) -> Any:
            return self.two(x, [x, 1, 2.0], flag=True)

    with pytest.raises(ShapeError) as caught:
        Outer()(hy.ones((4, 3)))
    place = "\nIn two: Two() got f32[4,3], f32[4,3], int, float, ...\n"
    assert place in str(caught.value)


def test_an_error_that_is_caught_leaves_nothing() -> None:
    class Careful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            try:
                return self.fc(x)
            except ShapeError:
                return self.fc(x[:, :3])

    assert Careful()(hy.ones((4, 5))).shape == (4, 2)


def test_errors_of_others_pass_as_they_are() -> None:
    class Own(nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        nn.Sequential(Own())(hy.ones(2))
    assert caught.value.args == ("mine",)
