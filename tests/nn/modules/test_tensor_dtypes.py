"""Modules in other dtypes: the same tensors, other plans."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CaptureError
from hybrid.nn import Linear, Module, Parameter, ReLU


class Net(Module):
    """A parameter, buffers, children."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter([2.0])
        self.register_buffer("offset", hy.asarray([1.0]))
        self.register_buffer("scratch", hy.asarray([0.0]), persistent=False)
        self.inner = Linear(1, 2)
        self.act = ReLU()
        self.level = 3

    def forward(self, x):
        return self.act(self.inner(x * self.scale + self.offset)) * self.level


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (lambda n: n.double(), hy.float64),
        (lambda n: n.half(), hy.float16),
        (lambda n: n.bfloat16(), hy.bfloat16),
        (lambda n: n.half().float(), hy.float32),
        (lambda n: n.to(hy.float64), hy.float64),
        (lambda n: n.to("float64"), hy.float64),
        (lambda n: n.to(dtype=np.float64), hy.float64),
        (lambda n: n.to("cpu", hy.float64), hy.float64),
        (lambda n: n.to(hy.zeros(1, dtype=hy.float64)), hy.float64),
        (lambda n: n.type(hy.float64), hy.float64),
        (lambda n: n.to("cpu"), hy.float32),
    ],
)
def test_conversions_keep_the_tensors_and_change_their_dtypes(convert, dtype):
    net = Net()
    net.register_buffer("count", hy.asarray(3))
    net.inner.weight.assign([[0.25], [-3.5]])  # numbers of every dtype
    net.inner.bias.assign([1.5, -0.125])
    hy.sum(net(hy.asarray([[1.0]]))).backward()
    parts = [*net.parameters(), net.offset, net.scratch]
    before = [p.astype(dtype).tolist() for p in parts]
    assert convert(net) is net
    assert [*net.parameters(), net.offset, net.scratch] == parts
    assert {p.dtype for p in parts} == {dtype} and net.count.dtype is hy.int64
    assert [p.tolist() for p in parts] == before
    assert all(p.requires_grad and p.grad.dtype is dtype for p in net.parameters())
    assert not net.offset.requires_grad
    assert net(hy.ones((1, 1), dtype=dtype)).dtype is dtype


def test_nothing_is_converted_inside():
    net = Net()

    @hy.hybridize
    def converting(x):
        net.double()
        return net(x)

    with pytest.raises(CaptureError, match=r"a tensor of f32\[1\] was converted in place inside"):
        converting(hy.ones((1, 1)))
    assert {p.dtype for p in net.parameters()} == {hy.float32}


def test_a_frozen_module_stays_so():
    net = Net().requires_grad_(False).double()
    assert not any(p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("whole", [False, True])
def test_conversion_is_another_plan(whole):
    net, plain = Net(), Net()
    plain.load_state_dict(net.state_dict())
    call = hy.hybridize(lambda x: net(x)) if whole else net.hybridize()
    x = hy.asarray([[1.0]])
    for dtype in (hy.float32, hy.float64, hy.float32):
        net.to(dtype)
        plain.to(dtype)
        found, wanted = call(x.astype(dtype)), plain(x.astype(dtype))
        assert found.type is wanted.type and found.numpy().tobytes() == wanted.numpy().tobytes()
    # An argument of the same type as before, and parameters of another.
    net.double()
    plain.double()
    assert call(x).numpy().tobytes() == plain(x).numpy().tobytes()


@pytest.mark.parametrize("hybridized", [False, True])
def test_training_goes_on_after_a_conversion(hybridized):
    """Whatever a step has remembered of a parameter holds for the dtype that it had."""
    net = Linear(2, 1)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.125)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    if hybridized:
        step = hy.hybridize(step)
    for dtype in (hy.float32, hy.float64, hy.float32, hy.float64):
        net.to(dtype)
        before = net.weight.tolist()
        for _ in range(3):
            step(hy.ones((1, 2), dtype=dtype))
        assert net.weight.type is hy.zeros((1, 2), dtype=dtype).type
        np.testing.assert_allclose(net.weight.numpy(), np.array(before) - 0.375, atol=1e-6)


def test_moments_of_another_dtype_are_told():
    net = Linear(2, 1, bias=False)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.125, momentum=0.9)
    for dtype in (hy.float32, hy.float64):
        net.to(dtype)
        before = net.weight.tolist()
        net(hy.ones((1, 2), dtype=dtype)).sum().backward()
        if dtype is hy.float32:
            optimizer.step()
            optimizer.zero_grad()
    with pytest.raises(hy.HybridError, match="f64"):
        optimizer.step()
    assert net.weight.tolist() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda n: n.to(hy.int64),
            "a Net cannot be converted to int64\nParameters are floating; other buffers keep "
            "their dtypes.\nFix: give a floating dtype.",
        ),
        (
            lambda n: n.to(device="cuda"),
            "no device 'cuda'\nFix: leave device out, or pass \"cpu\".",
        ),
    ],
)
def test_conversions_that_there_are_not(call, message):
    net = Net()
    with pytest.raises(hy.HybridError) as caught:
        call(net)
    assert str(caught.value) == message
    assert {p.dtype for p in net.parameters()} == {hy.float32}
