"""Modules in notebooks: a tree that can be opened, with what it holds."""

import numpy as np

import hybrid as hy
from hybrid import nn
from tests.markup import read, texts


def make():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(8)))
    net.append(nn.Linear(8, 2).requires_grad_(False))
    return net


def test_the_tree():
    net = make()
    assert texts(net._repr_html_()) == [
        "Sequential", "74 parameters, 18 frozen",
        "(0):", "Linear", "in_features=4, out_features=8, bias=True", "40 parameters",
        "weight", "f32[8,4]", "bias", "f32[8]",
        "(1):", "ReLU",
        "(2):", "Sequential", "16 parameters",
        "(0):", "BatchNorm1d", net[2][0].extra_repr(), "16 parameters",
        "weight", "f32[8]", "bias", "f32[8]", "running_mean", "f32[8] buffer",
        "running_var", "f32[8] buffer", "num_batches_tracked", "i64[] buffer",
        "(3):", "Linear", "in_features=8, out_features=2, bias=True", "18 parameters, all frozen",
        "weight", "f32[2,8]", "bias", "f32[2]",
    ]  # fmt: skip


def test_deep_parts_are_closed_at_first():
    net = nn.Sequential(nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(1, 1)))))
    folds = [attrs for tag, attrs in read(net._repr_html_()).tags if tag == "details"]
    assert folds == [{"open": None}, {"open": None}, {}, {}, {}]


def test_shared_parts_are_told_once():
    shared = nn.Linear(1, 1, bias=False)
    net = nn.Sequential(shared, shared)
    shown = texts(net._repr_html_())
    assert shown[1] == "1 parameter"
    assert shown[-1] == "shared, see above" and shown.count("weight") == 1


class Odd(nn.Module):
    """Of names that are markup."""

    def __init__(self):
        self.register_module("<b>", nn.ReLU())
        self.register_buffer("&amp;", hy.ones(1))
        self.register_buffer("none", None)

    def extra_repr(self):
        return '<img src="x">\nsecond'


def test_everything_is_escaped():
    odd = Odd()
    type(odd).__name__ = "Odd<T>"
    html = odd._repr_html_()
    shown = texts(html)
    assert shown == ["Odd<T>", '<img src="x"> second', "&amp;", "f32[1] buffer", "(<b>):", "ReLU"]
    assert all(tag != "img" for tag, _ in read(html).tags)


def test_a_module_without_anything():
    assert texts(nn.ReLU()._repr_html_()) == ["ReLU"]
    assert texts(nn.Sequential()._repr_html_()) == ["Sequential"]


def test_it_shows_what_is_there_and_changes_nothing():
    net = make()
    before = {name: t.numpy().copy() for name, t in net.state_dict().items()}
    net._repr_html_()
    assert all(np.array_equal(before[name], t.numpy()) for name, t in net.state_dict().items())
