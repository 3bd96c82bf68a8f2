"""Full backward hooks: what they see, what they change, and where they are refused."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, CaptureError
from hybrid.nn import Linear, Module, Sequential

X = np.random.RandomState(0).randn(3, 4).astype(np.float32)


def variable():
    x = hy.asarray(X.copy())
    x.requires_grad = True
    return x


def make():
    hy.random.seed(0)
    return Sequential(Linear(4, 3), Linear(3, 2))


def tensors(gradients):
    return [None if g is None else g.tolist() for g in gradients]


def test_a_hook_sees_the_gradients_of_arguments_and_results():
    net, plain = make(), make()
    seen = []
    net[1].register_full_backward_hook(lambda *given: seen.append(given))
    x, y = variable(), variable()
    (net(x) ** 2).sum().backward()
    (module, (grad_input,), (grad_output,)) = seen[0]
    hidden = plain[0](y).detach()
    hidden.requires_grad = True
    out = plain[1](hidden)
    (out**2).sum().backward()
    assert len(seen) == 1 and module is net[1]
    assert grad_input.tolist() == hidden.grad.tolist()
    assert grad_output.tolist() == (out.detach() * 2).tolist()
    (plain(y) ** 2).sum().backward()
    assert x.grad.tolist() == y.grad.tolist()


def test_what_hooks_return_goes_on():
    net, plain = make(), make()
    calls = []
    net[1].register_full_backward_pre_hook(lambda m, out: calls.append("pre") or (out[0] * 2,))
    net[1].register_full_backward_hook(lambda m, given, out: calls.append("first") or given[0] * 3)
    net[1].register_full_backward_hook(lambda m, given, out: calls.append("second"))
    net[1].register_full_backward_hook(lambda *given: calls.append("zeroth"), prepend=True)
    x, y = variable(), variable()
    net(x).sum().backward()
    plain(y).sum().backward()
    assert calls == ["pre", "zeroth", "first", "second"]
    np.testing.assert_allclose(x.grad.numpy(), 6 * y.grad.numpy(), rtol=1e-6)
    np.testing.assert_allclose(
        net[1].weight.grad.numpy(), 2 * plain[1].weight.grad.numpy(), rtol=1e-6
    )


class Several(Module):
    def forward(self, x, factor, y, *, z):
        return {"product": x * y * factor, "sum": [x + y + z, factor]}


def test_trees_of_results_and_arguments_of_every_kind():
    net, seen = Several(), []
    handle = net.register_full_backward_hook(lambda m, given, out: seen.append((given, out)))
    x, y = variable(), hy.asarray(X)
    out = net(x, 3.0, y, z=variable())
    (out["product"].sum() + 2 * out["sum"][0].sum()).backward()
    [(given, arrived)] = seen
    assert tensors(given)[1] is None and len(given) == 2  # factor is no tensor, z has a name
    np.testing.assert_allclose(given[0].numpy(), X * 3 + 2, rtol=1e-6)
    assert [g.numpy().ravel()[0] for g in arrived] == [1.0, 2.0]
    handle.remove()
    net(x, 3.0, y, z=y)["product"].sum().backward()
    assert len(seen) == 1


def test_without_gradients_of_arguments_it_is_called_all_the_same():
    net, seen = make(), []
    net.register_full_backward_hook(lambda m, given, out: seen.append((given, len(out))))
    net(hy.asarray(X)).sum().backward()
    assert seen == [((None,), 1)] and net[0].weight.grad is not None


def test_without_recording_nothing_happens():
    net, seen = make(), []
    net.register_full_backward_hook(lambda *given: seen.append(given))
    with hy.no_grad():
        net(variable())
    net.requires_grad_(False)
    net(hy.asarray(X))
    assert seen == []


def test_a_module_called_twice():
    net, seen = Linear(4, 4), []
    net.register_full_backward_hook(lambda m, given, out: seen.append(out[0].tolist()))
    net(net(variable())).sum().backward()
    assert len(seen) == 2 and seen[0] != seen[1]


@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_hybridized_calls_are_refused_and_not_passed_over(kind):
    net = make()
    getattr(net[1], kind)(lambda *given: None)
    net.hybridize()
    with pytest.raises(CaptureError) as caught:
        net(variable())
    assert str(caught.value).startswith(
        "a Linear with full backward hooks was called in a hybridized function or in vmap ("
    )
    assert str(caught.value).endswith(
        "Such hooks are Python that runs in the backward pass, which is a graph there.\n"
        "Fix: remove them, call the module eagerly, or define gradients with custom_vjp."
    )
    with hy.no_grad():
        assert net(variable()).tolist() == make()(variable()).tolist()
    net.hybridize(False)
    net(variable()).sum().backward()


def test_the_wrong_number_of_gradients():
    net = make()
    net.register_full_backward_hook(lambda m, given, out: (given[0], given[0]))
    with pytest.raises(ArgumentTypeError) as caught:
        net(variable()).sum().backward()
    assert str(caught.value) == (
        "a backward hook of Sequential returned 2 gradients for 1\n"
        "Fix: return None, or a tuple like the one that it was given."
    )
