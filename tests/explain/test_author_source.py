"""The source of a function: its lines, its statements, and what they read."""

from collections.abc import Callable

import hybrid as hy
from hybrid.convert import convert
from hybrid.explain.author_source import written
from tests.explain import samples

FIRST = written.__code__.co_firstlineno


def test_lines_lose_their_common_indentation() -> None:
    found = written(samples.Counter.count.__code__)
    assert (found.name, found.reason) == ("Counter.count", "")
    assert found.lines == [
        "def count(self, x, *, names):",
        "    self.seen = self.seen + 1",
        "    return self.net(x) * self.seen",
    ]


def test_a_conversion_is_known_by_its_original() -> None:
    code = convert(samples.squash).__code__
    assert code is not samples.squash.__code__
    assert written(code).lines == written(samples.squash.__code__).lines


def test_statements_and_what_they_read() -> None:
    def f(x, y):
        for i in range(
            y,
        ):
            x = x.shape[i] + FIRST
        assert x
        return x

    begin = f.__code__.co_firstlineno
    found = written(f.__code__)
    rows = [(s.line - begin, s.last - begin, s.end - begin) for s in found.statements]
    assert rows == [(1, 3, 4), (4, 4, 4), (5, 5, 5), (6, 6, 6)]
    loop, body, check, back = found.statements
    assert (loop.is_for, check.is_assert, back.is_jump) == (True, True, True)
    assert (loop.globals, loop.locals) == ({"range"}, {"y"})
    assert (body.globals, body.locals, body.attributes) == ({"FIRST"}, {"x", "i"}, {"shape"})
    assert found.assigned == {"i", "x"}


def test_blocks_of_every_kind() -> None:
    def f(x):
        try:
            with x as y:
                while y:
                    y -= 1
                else:
                    y = 2
        except ValueError:
            y = 3
        finally:
            y = 4
        match y:
            case 1:
                y = 5
            case _:
                pass

        def g(z=x):
            return z

        return g

    begin = f.__code__.co_firstlineno
    lines = [s.line - begin for s in written(f.__code__).statements]
    assert lines == [1, 2, 3, 4, 6, 8, 10, 11, 13, 15, 17, 18, 20]


def test_lambdas_and_decorators() -> None:
    assert written((lambda x: x).__code__).name == ("test_lambdas_and_decorators.<lambda>")
    decorated: Callable = hy.no_convert(samples.unconverted)
    assert written(decorated.__code__).lines[0] == "@hy.no_convert"


def test_no_source() -> None:
    namespace: dict = {}
    exec("def f(x):\n    return x\n", namespace)
    found = written(namespace["f"].__code__)
    assert found.reason == "the source of <string> is not to be had"
    assert (found.name, found.path, found.first, found.lines) == ("f", "<string>", 1, [])
