"""Random number generators of Python and NumPy: a snapshot that tells whether they were used."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np

_NBYTES = 624 * 4 + 4  # of the state of a Mersenne Twister: its words, and the place among them


class Draws:
    """A snapshot of the states of both global generators."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = _numpy_state()

    def moved(self) -> bool:
        """Whether either is another by now."""
        return self._numpy != _numpy_state() or self._python != random.getstate()

    def undo(self) -> None:
        """Put both back."""
        random.setstate(self._python)
        if isinstance(self._numpy, bytes):
            ctypes.memmove(_generator().ctypes.state_address, self._numpy, _NBYTES)
        else:
            _generator().state = self._numpy


def _generator() -> Any:
    return np.random.rand.__self__._bit_generator


def _numpy_state() -> Any:
    """All of it; a look at the memory is a hundred times as fast as asking for it."""
    generator = _generator()
    if type(generator) is np.random.MT19937:
        return ctypes.string_at(generator.ctypes.state_address, _NBYTES)
    return generator.state
