"""Messages of hybridize: the full text of what is refused; FILE:LINE is a place in this file."""

import dataclasses
import re
import sched

import pytest

import hybrid as hy
from hybrid.errors import (
    ArgumentError,
    ArgumentTypeError,
    CaptureError,
    LeakedValueError,
    TracedBoolError,
    TracedValueError,
)
from tests.helpers import leaf

V = hy.asarray([1.0, 2.0, 3.0])
GIVEN = leaf(2) * 2
SETTINGS = {"count": 0}
BATCH = [V]


@dataclasses.dataclass
class Holder:
    value: object


def counting(x):
    SETTINGS["count"] += 1
    return x


def appending(batch, other):
    batch.append(1)
    return other[0]


def hiding(x):
    return Holder(x * 2).__repr__


def later(x):
    yield x


def backward_outside(x):
    hy.sum(x * x).backward()


def branching(x):
    return x if hy.sum(x) > 0 else -x


def reading(x):
    return x[0].numpy()


def leak():
    kept = sched.scheduler()

    def hide(x):
        kept.enterabs(1, 1, print, (x + 1,))
        return x

    hy.hybridize(hide)(hy.ones(2))
    return kept.queue[0].argument[0] + 1


CASES = [  # (name, call, error, text)
    (
        "hybridize mode",
        lambda: hy.hybridize(hy.exp, mode="x"),
        ArgumentError,
        'mode=\'x\' is unknown\nFix: use "auto" or "trace" or "ast".',
    ),
    (
        "hybridize optimize",
        lambda: hy.hybridize(hy.exp, optimize="x"),
        ArgumentError,
        'optimize=\'x\' is unknown\nFix: use "exact" or "fast".',
    ),
    (
        "hybridize fallback",
        lambda: hy.hybridize(hy.exp, fallback="x"),
        ArgumentError,
        'fallback=\'x\' is unknown\nFix: use "error" or "eager".',
    ),
    (
        "hybridize max_plans",
        lambda: hy.hybridize(hy.exp, max_plans=0),
        ArgumentError,
        "max_plans is 0\nFix: give an int >= 1.",
    ),
    (
        "hybridize callable",
        lambda: hy.hybridize(3),
        ArgumentTypeError,
        "int is not callable\nFix: hybridize a function, a method or a Module.",
    ),
    (
        "traced truth",
        lambda: hy.hybridize(branching, mode="trace")(V),
        TracedBoolError,
        "the truth of a traced value was asked for (FILE:LINE)\n"
        "    LINE | return x if hy.sum(x) > 0 else -x\n"
        "While a function is traced its tensors are placeholders (bool[] here) without "
        "values.\n"
        'The control flow of branching was not converted: mode="trace" converts nothing.\n'
        'Fix: leave out mode="trace", or call hybrid.cond, hybrid.while_loop or hybrid.where.',
    ),
    (
        "traced number",
        lambda: hy.hybridize(reading)(V),
        TracedValueError,
        "numpy() of a traced value was asked for (FILE:LINE)\n"
        "    LINE | return x[0].numpy()\n"
        "While a function is traced its tensors are placeholders (f32[] here) without "
        "values.\n"
        "Fix: return the tensor and read its value outside the hybridized function.",
    ),
    (
        "side effect",
        lambda: hy.hybridize(counting)(V),
        CaptureError,
        "counting changed global SETTINGS while it was captured (FILE:LINE)\n"
        '    LINE | SETTINGS["count"] += 1\n'
        "A side effect on a Python value happens once, at capture, and could not be repeated "
        "by the plan.\n"
        "Fix: keep the value in a tensor (x.assign, +=), return it, or change it outside.",
    ),
    (
        "shared argument",
        lambda: hy.hybridize(appending)(BATCH, BATCH),
        CaptureError,
        "appending got one list in two ways, and changes what its lists and dicts hold\n"
        "A plan takes each list and dict among the arguments for one of its own.\n"
        "Fix: pass it once, or pass a copy.",
    ),
    (
        "hidden result",
        lambda: hy.hybridize(hiding)(V),
        CaptureError,
        "hiding returned a method that holds a traced tensor (.__self__.value) (FILE:LINE)\n"
        "    LINE | return Holder(x * 2).__repr__\n"
        "Only tuples, lists, dicts and plain objects of tensors can be returned.\n"
        "Fix: return the tensors in one of those.",
    ),
    (
        "generator",
        lambda: hy.hybridize(later)(V),
        CaptureError,
        "later returned a generator (FILE:LINE)\n"
        "    LINE | def later(x):\n"
        "It computes its values after the capture has ended, and only once.\n"
        "Fix: return a tuple or a list of tensors.",
    ),
    (
        "backward outside",
        lambda: hy.hybridize(backward_outside)(GIVEN),
        CaptureError,
        "backward() inside a hybridized function reaches a value computed outside it "
        "(FILE:LINE)\n"
        "    LINE | hy.sum(x * x).backward()\n"
        "The argument it came from has a history of its own, which is not captured.\n"
        "Fix: call backward() outside, or pass the argument with detach().",
    ),
    (
        "leak",
        leak,
        LeakedValueError,
        "a traced value (f32[2]) was used after its capture had ended (FILE:LINE)\n"
        "    LINE | return kept.queue[0].argument[0] + 1\n"
        "It was made while a hybridized function was traced (at FILE:LINE), and stands for a "
        "value of that graph only.\n"
        "Fix: return the tensor from the hybridized function instead of storing it "
        "elsewhere.",
    ),
]


def without_places(text: str) -> str:
    """``text`` with the places in this file that it names made the same everywhere."""
    text = re.sub(re.escape(__file__) + r":\d+", "FILE:LINE", text)
    return re.sub(r"(?m)^    \d+ \|", "    LINE |", text)


@pytest.mark.parametrize(
    ("call", "error", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_the_text_of_a_message(call, error, text) -> None:
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert without_places(str(caught.value)) == text
