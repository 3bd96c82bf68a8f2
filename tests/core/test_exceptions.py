"""Which exceptions come from outside of the code that they end."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from hybrid.core.exceptions import is_interrupt
from tests.faults import Limit


class Handlers:
    def method(self, signum: int, frame: Any) -> None:
        raise Limit

    def __call__(self, *given: Any) -> None:
        raise Limit

    @staticmethod
    def keywords(signum: int, frame: Any, *, unused: int = 0) -> None:
        deeper()


def deeper() -> None:
    raise Limit


def plain(first: Any, second: Any) -> None:
    deeper()


@contextmanager
def handled(handler: Callable[..., Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


HANDLERS = [Handlers().method, Handlers(), Handlers.keywords, partial(plain), lambda *_: deeper()]


@pytest.mark.parametrize("handler", HANDLERS)
def test_what_a_handler_raises(handler: Callable[..., Any]) -> None:
    with handled(handler), pytest.raises(Limit) as caught:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while True:
            time.sleep(0.0001)
    assert is_interrupt(caught.value)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()], ids=repr)
def test_what_no_program_means(error: BaseException) -> None:
    assert is_interrupt(error)


def test_what_a_program_raises() -> None:
    for call in (deeper, partial(plain, 1, 2), lambda: [][0]):
        with pytest.raises((Limit, IndexError)) as caught:
            call()
        assert not is_interrupt(caught.value)
    assert not is_interrupt(None) and not is_interrupt(Limit())
