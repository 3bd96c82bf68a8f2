"""What functions that a plan calls (py_call) use alone is theirs: no key, no side effect."""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest

import hybrid as hy
from tests.staging.harness import f32

COUNTS = {"calls": 0}


def test_a_function_for_python_keeps_what_it_likes() -> None:
    seen, count = [], 0

    def note(scale, a):
        nonlocal count
        count += 1
        COUNTS["calls"] += 1
        seen.append(float(a) * scale)
        return a

    @hy.hybridize
    def f(x):
        x = hy.py_call(functools.partial(note, 10.0), x, result=x.type) + 1
        if x > 3:
            x = hy.py_call(lambda a: note(1.0, a), x, result=x.type) * 2
        return x

    COUNTS["calls"] = 0
    assert [f(f32(v)).item() for v in (1.0, 5.0, 2.0)] == [2.0, 12.0, 3.0]
    assert seen == [10.0, 50.0, 6.0, 20.0] and count == COUNTS["calls"] == 4
    assert len(f.plans) == 1
    assert not any("seen" in guard or "count" in guard for guard in f.plans[0].guards)


def test_local_functions_for_python() -> None:
    seen = []

    @hy.hybridize
    def f(x):
        def note(a):
            seen.append(float(a))

        while x < 5:
            hy.py_call(note, x)
            x = x * 2
        return x

    for _ in range(3):
        f(f32(2.0))
    assert seen == [2.0, 4.0] * 3
    assert len(f.plans) == 1


class Recorder:
    seen: list[float]

    def note(self, a):
        self.seen.append(float(a))

    def __call__(self, a):
        self.note(a)


def test_methods_and_objects_for_python() -> None:
    first, second = Recorder(), Recorder()
    first.seen, second.seen = [], []

    @hy.hybridize
    def f(x):
        hy.py_call(first.note, x)
        hy.py_call(second, x + 1)
        return x * 2

    for v in (1.0, 2.0, 3.0):
        f(f32(v))
    assert first.seen == [1.0, 2.0, 3.0] and second.seen == [2.0, 3.0, 4.0]
    assert len(f.plans) == 1


def test_what_the_function_itself_reads_stays_a_key() -> None:
    scale, seen = 2.0, []

    def scaled(a):
        seen.append(scale)
        return a * np.float32(scale)

    @hy.hybridize
    def f(x):
        return hy.py_call(scaled, x, result=x.type) + scale

    assert f(f32(1.0)).item() == 4.0
    scale = 3.0
    assert f(f32(1.0)).item() == 6.0
    assert seen == [2.0, 3.0] and len(f.plans) == 2


def test_a_function_that_is_also_called_while_capturing_is_read() -> None:
    scale = 2.0

    def scaled(a):
        return a * scale

    @hy.hybridize
    def f(x):
        return hy.py_call(lambda a: scaled(a), x, result=x.type) + scaled(x)

    @hy.hybridize
    def g(x):
        y = hy.py_call(scaled, x, result=x.type)
        return y + sum(map(scaled, [x]))

    for h in (f, g):
        scale = 2.0
        assert h(f32(1.0)).item() == 4.0
        scale = 3.0
        assert h(f32(1.0)).item() == 6.0


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns there")
def test_lambdas_on_one_line_are_told_apart() -> None:
    scale, seen = 2.0, []
    # fmt: off
    f = hy.hybridize(lambda x: hy.cond(x > 0, lambda a: a * scale, lambda a: a, x) + hy.py_call(lambda a: seen.append(1) or a, x, result=x.type))  # noqa: E501
    # fmt: on
    assert [f(f32(1.0)).item(), f(f32(1.0)).item()] == [3.0, 3.0]
    assert len(f.plans) == 1
    scale = 3.0
    assert f(f32(1.0)).item() == 4.0
    assert len(f.plans) == 2 and len(seen) == 3


def test_a_function_marked_no_convert_is_read_unless_the_plan_calls_it() -> None:
    scale, seen = 2.0, []

    @hy.no_convert
    def scaled(x):
        return x * scale

    @hy.no_convert
    def note(a):
        seen.append(float(a))

    @hy.hybridize
    def f(x):
        hy.py_call(note, x)
        return scaled(x)

    assert [f(f32(1.0)).item(), f(f32(2.0)).item()] == [2.0, 4.0] and len(f.plans) == 1
    scale = 3.0
    assert f(f32(1.0)).item() == 3.0 and len(f.plans) == 2
    assert seen == [1.0, 2.0, 1.0]


def test_what_a_function_for_python_raises_ends_the_run() -> None:
    calls = []

    def note(a):
        calls.append(1)
        raise TypeError("mine")

    @hy.hybridize
    def f(x):
        hy.py_call(note, x)
        return x

    for n in range(1, 4):
        with pytest.raises(TypeError, match="mine"):
            f(f32(1.0))
        assert len(calls) == n


def test_unannounced_writes_are_still_the_captures_own() -> None:
    log, settings = [], {}

    @hy.no_convert
    def counted(x):
        log.append(len(log))
        return x * 2

    @hy.no_convert
    def configured(x):
        settings.setdefault("scale", 3.0)
        return x * settings["scale"]

    with pytest.raises(hy.errors.CaptureError, match="changed closure variable log while it was"):
        hy.hybridize(lambda x: counted(x))(f32(1.0))
    assert log == []
    assert hy.hybridize(lambda x: configured(x))(f32(1.0)).item() == 3.0
    assert settings == {"scale": 3.0}


def test_eager_calls_keep_nothing_of_the_function() -> None:
    class Held:
        pass

    held = Held()
    died = weakref.ref(held)
    assert hy.py_call(lambda a, held=held: a, f32(1.0), result=f32(1.0).type).item() == 1.0
    del held
    gc.collect()
    assert died() is None
