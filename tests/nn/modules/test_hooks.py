"""Hooks: when they are called and with what, eagerly and hybridized alike; never passed over."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentTypeError, CaptureError
from hybrid.nn import Linear, Module, ReLU, Sequential

X = hy.asarray(np.random.RandomState(0).randn(3, 4).astype(np.float32))
BOTH = pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])


def bits(*tensors):
    return [t.numpy().tobytes() for t in tensors]


class Scaled(Module):
    """Takes a keyword, so that hooks can see and change it."""

    def __init__(self):
        hy.random.seed(0)
        self.linear = Linear(4, 2)

    def forward(self, x, *, scale=1.0):
        return self.linear(x) * scale


def make(hybridized):
    net = Scaled()
    return net.hybridize() if hybridized else net


def double_args(module, args):
    return tuple(x * 2 for x in args)


def bare_argument(module, args):
    return args[0] + 1


def change_kwargs(module, args, kwargs):
    return args, {"scale": kwargs.get("scale", 1.0) * 3.0}


def negate(module, args, result):
    return -result


def add_input(module, args, kwargs, result):
    return result + args[0].sum() * kwargs["scale"]


def choose(module, args, result):
    if result.sum() > 0:
        return result * 10
    return result - 1


CASES = {  # name: how hooks are added, what the call computes with the plain forward
    "pre": (
        lambda m: m.register_forward_pre_hook(double_args),
        lambda f, x: f(x * 2, scale=2.0),
    ),
    "bare argument": (
        lambda m: m.register_forward_pre_hook(bare_argument),
        lambda f, x: f(x + 1, scale=2.0),
    ),
    "pre in order": (
        lambda m: [m.register_forward_pre_hook(h) for h in (double_args, bare_argument)],
        lambda f, x: f(x * 2 + 1, scale=2.0),
    ),
    "prepended": (
        lambda m: [
            m.register_forward_pre_hook(double_args),
            m.register_forward_pre_hook(bare_argument, prepend=True),
        ],
        lambda f, x: f((x + 1) * 2, scale=2.0),
    ),
    "pre with kwargs": (
        lambda m: m.register_forward_pre_hook(change_kwargs, with_kwargs=True),
        lambda f, x: f(x, scale=6.0),
    ),
    "post": (
        lambda m: m.register_forward_hook(negate),
        lambda f, x: -f(x, scale=2.0),
    ),
    "post with kwargs": (
        lambda m: m.register_forward_hook(add_input, with_kwargs=True),
        lambda f, x: f(x, scale=2.0) + x.sum() * 2.0,
    ),
    "post prepended": (
        lambda m: [
            m.register_forward_hook(negate),
            m.register_forward_hook(lambda m, a, r: r + 1, prepend=True),
        ],
        lambda f, x: -(f(x, scale=2.0) + 1),
    ),
    "none": (
        lambda m: [
            m.register_forward_pre_hook(lambda m, a: None),
            m.register_forward_hook(lambda m, a, r: None),
        ],
        lambda f, x: f(x, scale=2.0),
    ),
    "of a child": (
        lambda m: m.linear.register_forward_hook(negate),
        lambda f, x: f(x, scale=-2.0),
    ),
    "control flow": (
        lambda m: m.register_forward_hook(choose),
        lambda f, x: (y * 10) if (y := f(x, scale=2.0)).sum() > 0 else y - 1,
    ),
}


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_a_hook_is_part_of_the_call(name, hybridized):
    register, expected = CASES[name]
    net, plain = make(hybridized), Scaled()
    net(X, scale=2.0)  # a plan without hooks
    register(net)
    for x in (X, -X):
        found, wanted = net(x, scale=2.0), expected(plain, x)
        assert bits(found) == bits(wanted)
        net.zero_grad()
        plain.zero_grad()
        (found * found).sum().backward()
        (wanted * wanted).sum().backward()
        assert bits(net.linear.weight.grad) == bits(plain.linear.weight.grad)


@BOTH
def test_what_hooks_change_is_noticed(hybridized):
    net, plain = make(hybridized), Scaled()
    assert bits(net(X)) == bits(plain(X))
    with net.register_forward_hook(negate) as handle:
        assert bits(net(X)) == bits(-plain(X))
        inner = net.linear.register_forward_pre_hook(double_args)
        assert bits(net(X)) == bits(-plain(X * 2))
        inner.remove()
        inner.remove()
        assert bits(net(X)) == bits(-plain(X))
    assert bits(net(X)) == bits(plain(X))
    handle.remove()
    if hybridized:
        assert len(net.plans) == 3  # without, with one, with both: the others are found again


@BOTH
def test_what_a_hook_reads_is_noticed(hybridized):
    net, factor = make(hybridized), 2.0
    net.register_forward_hook(lambda m, a, r: r * factor)
    plain = Scaled()(X)
    assert bits(net(X)) == bits(plain * 2.0)
    factor = 3.0
    assert bits(net(X)) == bits(plain * 3.0)


@BOTH
def test_activations_are_collected(hybridized):
    """What hooks are used for most: looking at what layers give."""
    hy.random.seed(1)
    net = Sequential(Linear(4, 3), ReLU(), Linear(3, 2))
    seen, last = {}, []

    def keep(name):
        def hook(module, args, result):
            seen[name] = result

        return hook

    for name, module in net.named_modules():
        module.register_forward_hook(keep(name))
    net[1].register_forward_hook(lambda m, a, r: last.append(r))
    if hybridized:
        net.hybridize()
    for count, x in enumerate((X, X * 2), 1):
        y = net(x)
        assert list(seen) == ["0", "1", "2", ""] and len(last) == count
        assert bits(seen[""], seen["0"]) == bits(y, net[0].forward(x))
        assert bits(last[-1]) == bits(hy.relu(seen["0"]))


def test_a_module_in_a_hybridized_function_calls_its_hooks():
    net = Scaled()
    whole = hy.hybridize(lambda x: net(x) + 1)
    plain = bits(whole(X))
    handle = net.register_forward_hook(negate)
    assert bits(whole(X)) == bits(-Scaled()(X) + 1) != plain
    handle.remove()
    assert bits(whole(X)) == plain and len(whole.plans) == 2


def test_hooks_run_under_vmap_and_grad():
    net = Scaled()
    net.register_forward_hook(negate)
    rows = hy.vmap(net)(X)
    np.testing.assert_allclose(rows.numpy(), -Scaled()(X).numpy(), rtol=1e-6)
    assert bits(hy.grad(lambda x: net(x).sum())(X)) == bits(
        hy.grad(lambda x: -net.forward(x).sum())(X)
    )


@BOTH
def test_always_called(hybridized):
    class Failing(Module):
        def forward(self, x):
            raise KeyError("forward")

    seen = []
    net = Failing().hybridize() if hybridized else Failing()
    net.register_forward_hook(lambda m, a, r: 1 / 0)
    net.register_forward_hook(lambda m, a, r: 1 / 0, always_call=True)
    net.register_forward_hook(lambda m, a, r: seen.append(r), always_call=True)
    with pytest.raises(KeyError, match="forward"):
        net(X)
    assert seen[:1] == [None]


def test_copies_have_the_hooks():
    net = Scaled()
    handle = net.register_forward_hook(negate)
    twins = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    handle.remove()
    for twin in twins:
        assert bits(twin(X)) == bits(-net(X))


def test_the_order_of_handles_does_not_matter_and_the_same_hook_may_be_there_twice():
    net, plain = Scaled(), Scaled()
    first, second = (net.register_forward_hook(lambda m, a, r: r + 1) for _ in range(2))
    assert bits(net(X)) == bits(plain(X) + 1 + 1)
    first.remove()
    first.remove()
    assert bits(net(X)) == bits(plain(X) + 1)
    second.remove()
    assert bits(net(X)) == bits(plain(X)) and net._hooks == ()
    twice = [net.register_forward_hook(negate), net.register_forward_hook(negate)]
    twice[0].remove()
    assert bits(net(X)) == bits(-plain(X))


def test_hooks_die_with_their_module():
    class Hook:
        def __call__(self, module, args, result):
            return result

    net, hook = Scaled(), Hook()
    net.register_forward_hook(hook)
    watch = weakref.ref(hook)
    del net, hook
    gc.collect()
    assert watch() is None


# State dicts --------------------------------------------------------------------------------------


def test_hooks_of_state_dict():
    net = Sequential(Linear(1, 1, bias=False))
    calls = []
    net[0].register_state_dict_pre_hook(lambda *given: calls.append(given))
    net[0].register_state_dict_post_hook(
        lambda module, state, prefix, _: state.update({prefix + "version": hy.asarray(3)})
    )
    assert list(net.state_dict()) == ["0.weight", "0.version"]
    assert list(net.state_dict(prefix="net.", keep_vars=True)) == ["net.0.weight", "net.0.version"]
    assert calls == [(net[0], "0.", False), (net[0], "net.0.", True)]


def test_hooks_of_load_state_dict():
    net = Sequential(Linear(1, 1, bias=False))

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        state[prefix + "weight"] = state.pop(prefix + "kernel")

    results = []
    net[0].register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_post_hook(lambda module, result: results.append(result))
    given = {"0.kernel": hy.full((1, 1), 5.0)}
    assert net.load_state_dict(given) == ([], []) and results == [([], [])]
    assert net[0].weight.tolist() == [[5.0]] and list(given) == ["0.kernel"]


def test_a_hook_can_refuse_a_state():
    net = Linear(1, 1, bias=False)
    before = net.weight.tolist()

    def refuse(module, state, prefix, metadata, strict, missing, unexpected, errors):
        errors.append("it is too old")

    net.register_load_state_dict_pre_hook(refuse)
    with pytest.raises(hy.HybridError) as caught:
        net.load_state_dict({"weight": hy.ones((1, 1))})
    assert str(caught.value) == (
        "the state does not fit Linear; nothing was loaded\n  it is too old\n"
        "Fix: load what state_dict() of the same model gave."
    )
    assert net.weight.tolist() == before


# Errors -------------------------------------------------------------------------------------------


def test_what_is_no_hook():
    with pytest.raises(ArgumentTypeError) as caught:
        Linear(1, 1).register_forward_hook(3)
    assert str(caught.value) == "a int cannot be a hook of a Linear\nFix: pass a function."


@BOTH
def test_what_a_hook_with_kwargs_must_return(hybridized):
    net = make(hybridized)
    net.register_forward_pre_hook(lambda m, a, k: a, with_kwargs=True)
    with pytest.raises(ArgumentTypeError) as caught:
        net(X)
    assert str(caught.value) == (
        "a forward pre-hook of Scaled returned a tuple\n"
        "With with_kwargs=True it returns None or (args, kwargs)."
    )


def test_hooks_are_not_changed_inside():
    class Hooking(Scaled):
        def forward(self, x):
            self.linear.register_forward_hook(negate)
            return self.linear(x)

    net = Hooking().hybridize()
    with pytest.raises(CaptureError, match="the hooks of a Linear were changed inside"):
        net(X)
    assert net.linear._hooks == ()
