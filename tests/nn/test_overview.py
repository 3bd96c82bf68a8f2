"""summary: its figures, its table as text and HTML, and that it leaves the model as it was."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.ir.interpreter import ACTIVE
from hybrid.nn import Dropout, Linear, Module, ModuleList, ReLU, Sequential, summary

X = hy.ones((32, 64))


def make():
    hy.random.seed(0)
    net = Sequential(Linear(64, 128), ReLU(), Dropout(), Linear(128, 10))
    net[0].requires_grad_(False)
    return net


TABLE = """
 module    type         result        parameters    FLOPs   activations
 ──────────────────────────────────────────────────────────────────────
 (model)   Sequential   f32[32,10]         9,610    615 k       51.7 kB
   0       Linear       f32[32,128]        8,320    528 k       32.8 kB
   1       ReLU         f32[32,128]                 4.1 k       16.4 kB
   2       Dropout      f32[32,128]
   3       Linear       f32[32,10]         1,290   82.2 k       2.56 kB

 total                                     9,610    615 k       51.7 kB

1,290 parameters are trained
38.4 kB of parameters"""


def test_the_table():
    found = summary(make(), X)
    assert "\n" + str(found) == TABLE and repr(found) == str(found)


def test_the_figures():
    found = summary(make(), X)
    assert (found.parameters, found.trainable) == (9610, 1290)
    assert (found.parameter_nbytes, found.buffer_nbytes) == (9610 * 4, 0)
    first = found["0"]
    assert first.flops == 32 * 64 * 128 * 2 + 32 * 128  # with the bias
    assert (first.kind, first.depth, first.calls, first.parameters) == ("Linear", 1, 1, 8320)
    assert first.result == (hy.zeros((32, 128)).type,)
    assert found.flops == found[""].flops == sum(found[str(i)].flops for i in range(4))
    assert found.nbytes == found[""].nbytes == sum(found[str(i)].nbytes for i in range(4))
    with pytest.raises(KeyError, match="the summary has no module '4'\nThere are , 0, 1, 2, 3"):
        found["4"]


class Branching(Module):
    """Shared weights, a part that is called twice, one that is not, a list, several results."""

    def __init__(self):
        self.layers = ModuleList([Linear(4, 4), Linear(4, 4)])
        self.layers[1].weight = self.layers[0].weight
        self.again = Linear(4, 4, bias=False)
        self.unused = Sequential(Linear(4, 2))
        self.register_buffer("seen", hy.zeros(()))

    def forward(self, x, *, scale):
        for layer in self.layers:
            x = layer(x)
        self.seen += 1
        y = self.again(self.again(x)) * scale
        return {"x": x, "y": [y, y]}


def test_parts_of_every_kind():
    found = summary(Branching(), hy.ones((3, 4)), scale=2.0)
    assert found.parameters == 16 + 4 + 4 + 16 + 10 and found.buffer_nbytes == 4
    assert found["layers"].parameters == 24 and found["layers"].calls == 0
    assert found["again"].calls == 2 and found["again"].flops == 2 * (2 * 3 * 4 * 4)
    assert found["unused.0"].flops == 0 and not found["unused.0"].holds_called
    text = str(found)
    assert re.search(r"\n   layers +ModuleList +24\n", text)
    assert re.search(r"\n   again +Linear +f32\[3,4\]  x 2 +16 ", text)
    assert re.search(r"\n     0 +Linear +not called +10\n", text)
    assert re.search(r"\(model\) +Branching +f32\[3,4\], f32\[3,4\], f32\[3,4\] ", text)
    assert text.endswith("200 B of parameters, 4 B of buffers")


def test_rows_down_to_a_depth():
    net = Sequential(make(), ReLU())
    whole, some = summary(net, X), summary(net, X, depth=1)
    assert whole.rows == some.rows and len(some.shown) == 3 < len(whole.shown) == 7
    assert "\n     0 " in str(whole) and "\n     0 " not in str(some)
    assert len(summary(net, X, depth=0).shown) == 1


@pytest.mark.parametrize("hybridized", ["no", "module", "part"])
def test_hybridized_models_are_counted_alike(hybridized):
    net = make()
    expected = summary(net, X).rows
    if hybridized != "no":
        part = net if hybridized == "module" else net[0]
        part.hybridize()(X)
    assert summary(net, X).rows == expected
    assert hybridized == "no" or len(part.plans) == 1


def test_the_model_is_left_as_it_was():
    class Drawing(Branching):
        def forward(self, x, *, scale):
            return super().forward(x + hy.random.normal(size=x.shape), scale=scale)

    net = Drawing()
    hy.random.seed(7)
    first = hy.random.normal(size=3).tolist()
    hy.random.seed(7)
    before = {name: t.tolist() for name, t in net.state_dict().items()}
    summary(net, hy.ones((3, 4)), scale=1.0)
    assert hy.random.normal(size=3).tolist() == first
    assert {name: t.tolist() for name, t in net.state_dict().items()} == before
    assert net.training and all(p.grad is None for p in net.parameters())


def test_inputs_are_given_as_to_the_model():
    class Two(Module):
        def forward(self, x, y):
            return x + y

    for inputs in ((X, X), ((X, X),)):
        assert summary(Two(), *inputs).flops == X.size
    assert summary(Two(), X, y=np.ones((32, 64), np.float32)).flops == X.size


def test_hooks_are_called_and_counted():
    net = make()
    seen = []
    net[1].register_forward_hook(lambda module, args, result: seen.append(1) or result * 2)
    assert summary(net, X).flops == summary(make(), X).flops + 32 * 128 and seen == [1]


def test_what_the_model_raises_is_raised():
    with pytest.raises(hy.HybridError, match=r"matmul cannot take f32\[32,63\]"):
        summary(make(), hy.ones((32, 63)))
    assert not ACTIVE


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: summary(3),
            ArgumentTypeError,
            "summary() of a int\nFix: give a hybrid.nn.Module.",
        ),
        (
            lambda: summary(make(), X, depth=-1),
            ArgumentError,
            "depth is -1\nFix: give an int >= 0, or None for all rows.",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_notebooks_show_a_table():
    net = Sequential(make(), Branching())
    net.append(Sequential(Linear(1, 1)))
    net.register_module("<odd>", Linear(1, 1))
    net.forward = net[0].forward
    page = summary(net, X)._repr_html_()
    assert page.count("<tr") == page.count("</tr>") == 2 + len(list(net.modules()))
    assert page.count("<td") == page.count("</td>")
    assert "&lt;odd&gt;" in page and "<odd>" not in page
    assert '<tr class="unused">' in page and 'style="padding-left: 3.3em"' in page
    assert "1,290 parameters" not in page  # those of the other parts count, too


def test_tables_are_printed_in_colours():
    file = io.StringIO()
    Console(width=100, force_terminal=True, file=file).print(summary(make(), X))
    assert "\x1b[1m(model)" in file.getvalue() and "Linear" in file.getvalue()
