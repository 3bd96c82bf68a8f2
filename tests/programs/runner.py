"""Programs run by C alone, for tests: what goes in and comes out are NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybrid.core.types import SUPPORTED
from hybrid.memory import native

ffi, lib = native.ffi, native.lib
DTYPES_BY_CODE = {dtype.code: dtype for dtype in SUPPORTED}


class ProgramFailure(Exception):
    """What C says of a failure."""


def failed() -> ProgramFailure:
    return ProgramFailure(ffi.string(lib.hyb_last_error()).decode())


class CProgram:
    """A program as C has it."""

    def __init__(self, path: Any, flags: int = 0) -> None:
        self.handle = self._owned(lib.hyb_program_load(str(path).encode(), flags))

    @classmethod
    def of(cls, content: bytes, flags: int = 0) -> CProgram:
        """One of the bytes of a file."""
        made = cls.__new__(cls)
        block = np.zeros(len(content) + 64, np.uint8)
        at = -block.ctypes.data % 64
        block[at : at + len(content)] = np.frombuffer(content, np.uint8)
        made.bytes = block
        address = ffi.cast("void *", block.ctypes.data + at)
        made.handle = cls._owned(lib.hyb_program_load_memory(address, len(content), flags))
        return made

    @staticmethod
    def _owned(handle: Any) -> Any:
        if handle == ffi.NULL:
            raise failed()
        return ffi.gc(handle, lib.hyb_program_free)

    def fork(self) -> CProgram:
        made = type(self).__new__(type(self))
        made.bytes = getattr(self, "bytes", None)
        made.handle = self._owned(lib.hyb_program_fork(self.handle))
        return made

    def state(self) -> dict[str, np.ndarray]:
        """All cells, as they are in memory."""
        found = {}
        name, layout, data = ffi.new("char const **"), ffi.new("hyb_layout *"), ffi.new("void **")
        for i in range(lib.hyb_program_states(self.handle)):
            assert lib.hyb_program_state(self.handle, i, name, layout, data) == 0
            dtype, shape = DTYPES_BY_CODE[layout.dtype].numpy, tuple(layout.shape[0 : layout.rank])
            nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            content = np.frombuffer(ffi.buffer(data[0], nbytes), dtype)
            found[ffi.string(name[0]).decode()] = content.reshape(shape)
        return found

    def touch(self, name: str) -> None:
        assert lib.hyb_program_touch(self.handle, list(self.state()).index(name)) == 0

    def save(self, path: Any) -> None:
        if lib.hyb_program_save(self.handle, str(path).encode()):
            raise failed()

    def outputs(self, function: int, layouts: Any) -> list[np.ndarray]:
        found, layout = [], ffi.new("hyb_layout *")
        for i in range(lib.hyb_program_outputs(self.handle, function)):
            if lib.hyb_program_output_layout(self.handle, function, i, layouts, layout):
                raise failed()
            dtype = DTYPES_BY_CODE[layout.dtype].numpy
            found.append(np.zeros(tuple(layout.shape[0 : layout.rank]), dtype))
        return found

    def __call__(self, name: str, *inputs: np.ndarray) -> list[np.ndarray]:
        """The outputs of a function."""
        function = lib.hyb_program_find(self.handle, name.encode())
        if function < 0:
            raise failed()
        layouts = ffi.new("hyb_layout[]", max(len(inputs), 1))
        for layout, array in zip(layouts, inputs, strict=False):
            layout.dtype = code_of(array.dtype)
            layout.rank = array.ndim
            layout.shape[0 : array.ndim], layout.strides[0 : array.ndim] = (
                array.shape,
                array.strides,
            )
        outputs = self.outputs(function, layouts)
        given, made = (
            ffi.new("void *[]", [ffi.cast("void *", a.ctypes.data) for a in arrays] or 1)
            for arrays in (inputs, outputs)
        )
        if lib.hyb_program_run(self.handle, function, given, layouts, made):
            raise failed()
        return outputs


def code_of(dtype: Any) -> int:
    """The code that C has for a dtype of NumPy."""
    return next(code for code, known in DTYPES_BY_CODE.items() if known.numpy == dtype)
