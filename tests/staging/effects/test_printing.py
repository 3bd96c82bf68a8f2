"""print, logging and warnings: what a captured function writes is what it writes eagerly."""

from __future__ import annotations

import functools
import gc
import io
import logging
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import hybrid as hy
from hybrid.staging.effects import log_calls as log_calls  # which registers its overrides
from hybrid.staging.sessions.overrides import OVERRIDES
from hybrid.staging.sessions.views import tracing
from tests.helpers import leaf, tensor
from tests.numbers import capture, run


def hooked(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` as converted code does."""
    owner = getattr(function, "__self__", None)
    bound = () if owner is None or not hasattr(function, "__func__") else (owner,)
    override = functools.partial(OVERRIDES[getattr(function, "__func__", function)], None, *bound)
    return (override if tracing() else function)(*args, **kwargs)


class Shown:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"Shown({self.x!r}, {self.x.sum():>12.3f})"


def everything(x: Any, n: int, y: float) -> None:
    hooked(print, "constant", 3, None, sep="-")
    hooked(print)
    hooked(print, x, n, y, x.shape)
    hooked(print, f"{x} and {n:>8d}, {y!r:>20} {y:e} {x.sum():.3f} {str(x)!s:>50}")
    hooked(print, [x, (n, {"y": y})], {1, 2}, Shown(x), end="|\n", sep=f"<{n}>")
    total = x + n
    text = f"{total}"
    total += 1.0
    hooked(print, text, total)
    hooked(print, "error", n, file=sys.stderr, flush=True)


@pytest.mark.parametrize("make", [tensor, leaf])
def test_print_writes_what_eager_writes(make: Callable[..., Any], capsys: Any) -> None:
    x = make(3)
    everything(x, 2, -0.5)
    wanted = capsys.readouterr()
    assert "tensor([" in wanted.out and "error 2" in wanted.err
    run(everything, x, 2, -0.5)
    assert capsys.readouterr() == wanted


def test_nothing_is_written_during_the_capture(capsys: Any) -> None:
    graph = capture(everything, tensor(3), 2, 0.5).graph
    assert capsys.readouterr() == ("", "")
    assert sum(node.op.name == "py_call" for node in graph.nodes) == 7


def test_a_file_of_ones_own() -> None:
    file = io.StringIO()
    run(lambda n: hooked(print, n, n + 1, file=file), 4)
    assert file.getvalue() == "4 5\n"


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Any, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(
            (
                record.name,
                record.levelname,
                record.getMessage(),
                record.lineno,
                record.funcName,
                record.pathname,
                None if record.exc_info is None else record.exc_info[0],
                getattr(record, "step", None),
                (record.stack_info or "").partition("\n")[0],
            )
        )


@pytest.fixture
def records() -> Iterator[Records]:
    handler, logger = Records(), logging.getLogger("tests.output")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logging.getLogger().addHandler(handler)
    logger.propagate = False
    yield handler
    logger.removeHandler(handler)
    logging.getLogger().removeHandler(handler)
    logger.propagate = True


def log_everything(x: Any, n: int) -> None:
    logger = logging.getLogger("tests.output")
    hooked(logger.debug, "unseen %s", x)
    hooked(logger.info, "x is %s, n %5d, %.2f", x, n, x.sum().item())
    hooked(logger.warning, "by name %(n)d", {"n": n})
    hooked(logger.log, logging.ERROR, f"text {n}", extra={"step": n}, stack_info=True)
    hooked(logger.critical, Shown(x))
    hooked(logger.fatal, "%r", Shown(x))
    hooked(logging.warning, "root %d", n)
    hooked(logging.log, logging.ERROR, "root log")
    hooked(logging.LoggerAdapter(logger, {"step": 7}).error, "adapted %d", n)
    try:
        raise KeyError(n)
    except KeyError as error:
        hooked(logger.exception, "caught %s", error)
        hooked(logger.error, "again", exc_info=error)


def test_logging_makes_the_records_that_eager_makes(records: Records) -> None:
    x = tensor(2)
    log_everything(x, 3)
    wanted = [*records.seen]
    assert len(wanted) == 10
    records.seen.clear()
    run(log_everything, x, 3)
    assert records.seen == wanted


def warn_everything(x: Any, n: int) -> None:
    hooked(warnings.warn, f"number {n}")
    hooked(warnings.warn, "old", DeprecationWarning, stacklevel=2)
    hooked(warnings.warn, RuntimeWarning(f"sum {x.sum():.3f}"))


def test_warnings() -> None:
    x = tensor(2)
    seen = []
    for call in (lambda: warn_everything(x, 3), lambda: run(warn_everything, x, 3)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        seen.append([(str(w.message), w.category, w.filename, w.lineno) for w in caught])
    assert seen[0] == seen[1]
    assert [row[0] for row in seen[0]] == ["number 3", "old", f"sum {x.sum():.3f}"]


def test_a_warning_made_an_error_ends_the_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="number 3"):
            run(warn_everything, tensor(2), 3)


def test_outside_a_capture_the_original_is_called(capsys: Any) -> None:
    assert OVERRIDES[print](None, "x") is NotImplemented
    assert OVERRIDES[warnings.warn](None, "x") is NotImplemented
    assert OVERRIDES[logging.info](None, "x") is NotImplemented
    assert OVERRIDES[logging.Logger.info](None, logging.getLogger(), "x") is NotImplemented
    assert hy.ones(1).tolist() == [1.0]


def test_what_is_written_to_lives_no_longer_than_the_function() -> None:
    class File(io.StringIO):
        pass

    def make() -> tuple[Any, weakref.ref[File]]:
        file = File()
        return hy.hybridize(lambda x: (print(x, file=file), x)[1]), weakref.ref(file)

    function, file = make()
    function(tensor(2))
    assert file().getvalue() == f"{tensor(2)}\n"
    del function
    gc.collect()
    assert file() is None


def prints_in_branches(x, s):
    v = x * 2 if s > 0 else x.detach()
    print(v)
    if s > -5:
        w = x if s > 1 else hy.stop_gradient(x)
        print(w, hy.max(w), w + 1)
        for k in range(2):
            u = x * k if s > k else x.detach()
            print(u.sum())
    return v


def test_whether_it_requires_gradients_is_shown_by_the_path(capsys: Any) -> None:
    """In a branch or loop, too, of what is chosen in it."""
    shown: list[list[str]] = []
    hybridized = hy.hybridize(prints_in_branches)
    for s in (2.0, 0.5, -1.0, 2.0):
        for function in (prints_in_branches, hybridized):
            x = hy.asarray([1.0, -2.0])
            x.requires_grad = True
            function(x, hy.asarray(s))
            shown.append(capsys.readouterr().out.splitlines())
    assert shown[::2] == shown[1::2]
    assert any("requires_grad" in line for line in shown[0])
    assert not any("requires_grad" in line for line in shown[4])
