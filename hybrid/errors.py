"""Every error this package raises on purpose.

A message has up to four parts: what happened, the author's own source line,
why it is so, and what to write instead.  ``tests/test_errors.py`` pins the
text of each.
"""

import builtins
import linecache
import math
import os
import sys
import warnings
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from hybrid.core.dataclass import dataclass
from hybrid.core.exceptions import CaptureSignal, is_interrupt, remember
from hybrid.core.package import FOLDER


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the author's source."""

    path: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"

    @staticmethod
    def of(text: str) -> "Location | None":
        """The place that ``str`` gives as ``text``; None if it is none."""
        path, _, line = text.rpartition(":")
        return Location(path, int(line)) if path and line.isdecimal() else None


class Place(NamedTuple):
    """Where in a model an error was raised."""

    module: int  # the id of the one that it passed last
    path: str  # of the layer from there
    layer: str  # its settings, and what it got
    says: bool  # whether that tells what is wrong


class HybridError(Exception):
    """Base class; ``why``, ``fix`` and ``at`` are optional but expected."""

    _of_capture = False  # whether eager code would not raise it
    stopped = False  # whether code that has caught it has taken its traceback away
    place: "Place | None" = None  # in a model

    def __init__(
        self, what: str, *, at: Location | None = None, why: str = "", fix: str = ""
    ) -> None:
        self.what, self.at, self.why, self.fix = what, at, why, fix
        super().__init__(what)
        if self._of_capture:
            remember(self)

    def __str__(self) -> str:
        parts = [self.what if self.at is None else f"{self.what} ({self.at})"]
        if self.at is not None and self.at.text:
            parts.append(f"    {self.at.line} | {self.at.text.strip()}")
        if self.place is not None and (self.place.path or self.place.says):
            parts.append(f"In {self.place.path}: {self.place.layer}".removeprefix("In : "))
        if self.why:
            parts.append(self.why)
        if self.fix:
            parts.append(f"Fix: {self.fix}.")
        return "\n".join(parts)

    def with_traceback(self, trace: TracebackType | None) -> "HybridError":
        self.stopped = self.stopped or trace is None
        return super().with_traceback(trace)

    def __reduce__(self):
        return _rebuild, (type(self), self.__dict__ | {"args": self.args})


def _rebuild(kind: type, state: dict) -> HybridError:
    error = kind.__new__(kind)
    error.args = state.pop("args")
    error.__dict__.update(state)
    return error


class ShapeError(HybridError, ValueError):
    """Operand shapes break an op's rule."""


class DTypeError(HybridError, TypeError):
    """Operand dtypes break an op's rule."""


class RangeError(DTypeError, OverflowError):
    """A number lies beyond those of the dtype that it is given."""


class MaskError(ShapeError, IndexError):
    """A mask does not have the shape of what it selects from."""


class AxisError(HybridError, ValueError, IndexError):
    """An axis is out of range or given twice."""


class ArgumentError(HybridError, ValueError):
    """An argument has the right type and a wrong value."""


class SharingError(ArgumentError, BufferError):
    """Memory was to be shared without a copy and cannot be; what the array API asks for here."""


class ArgumentTypeError(HybridError, TypeError):
    """An argument has a wrong type."""


class OutOfRangeError(HybridError, IndexError):
    """An index lies outside its axis."""


class BudgetError(HybridError, RuntimeError):
    """The loops of a plan from a file go round more often than they may: see cache_plans."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"a plan that was loaded from a file was ended: {text}",
            why="That is the budget of a call of such a plan: one that was forged has to end.",
            fix="if the call needs more, pass budget= to hybrid.cache_plans, or set "
            "HYBRID_PLAN_CACHE_BUDGET",
        )


class LinearAlgebraError(HybridError, np.linalg.LinAlgError):
    """A matrix does not have what was asked of it: it is singular, say."""


class VerificationError(HybridError):
    """A verified call of a hybridized function gave something else in a plan than eagerly."""


class NonFiniteError(HybridError, FloatingPointError):
    """An op has made a NaN, or inf, inside of ``hybrid.debug``."""


class ProgramError(HybridError):
    """A function cannot be exported, or a file of a program cannot be loaded."""


class OutOfMemoryError(HybridError, MemoryError):
    """The system refused the memory for a tensor or a plan."""


class CancelledError(HybridError, RuntimeError):
    """Queued work was never done, because work before it has failed."""


class NativeError(HybridError, RuntimeError):
    """The C runtime refused a request that Python had let through."""

    _of_capture = True


class WorkerError(HybridError, RuntimeError):
    """A worker of a loader died, hung, or failed with what cannot be raised elsewhere."""


class DatasetError(HybridError, RuntimeError):
    """A dataset does not keep what it said: it changed its length while it was gone over, say."""


class DataFileError(HybridError, ValueError):
    """A file does not hold what a reader expects; the text names the file and the place."""


class OnnxError(HybridError, ValueError):
    """An ONNX model breaks its format, or asks for what is not to be had; names file and node."""


class MissingPartError(HybridError, AttributeError):
    """A module has no such sub-module, parameter or buffer."""


_MOST_KEYS = 16  # that a text lists


class MissingKeyError(HybridError, KeyError):
    """What is called like a dict has no such key; the text says which there are."""

    @staticmethod
    def among(owner: str, kind: str, key: object, known: Iterable[object]) -> "MissingKeyError":
        """The error for ``key``, where ``owner`` has those that are ``known``."""
        first = [*map(str, known)]
        more = len(first) - _MOST_KEYS
        listed = ", ".join(first[:_MOST_KEYS]) + (f" and {more} more" if more > 0 else "")
        there = f"There are {listed}." if listed else "It is empty."
        return MissingKeyError(f"{owner} has no {kind} {key!r}", why=there)


class CheckpointError(HybridError, ValueError):
    """A file of weights breaks its format, or holds what tensors cannot."""


class CallbackError(HybridError, RuntimeError):
    """A callback of a training asked for what it cannot have where it is called."""


class MissingPackageError(HybridError, ImportError):
    """What was asked for is the work of an optional package, which is not installed."""


class CollectiveMismatchError(HybridError, RuntimeError):
    """Ranks were about to do different collectives, or the same in another order."""


class RankTimeoutError(HybridError, TimeoutError):
    """Other ranks did not come to a collective within the time that was given to them."""


class RankFailedError(HybridError, RuntimeError):
    """Another process of the job has ended, or cannot be reached; ``rank`` is its number."""

    rank: int | None = None


class GradientError(HybridError, RuntimeError):
    """A gradient was asked for that does not exist."""


class GraphError(HybridError, ValueError):
    """A graph breaks a rule of the IR, or its text does not parse."""

    _of_capture = True


class CaptureError(HybridError, RuntimeError):
    """A function cannot be captured as it is written."""

    _of_capture = True


class EagerOnlyError(CaptureError):
    """Only op by op does a function give the bits that it gives eagerly."""


class UncapturedCallError(EagerOnlyError):
    """One call alone is to run eagerly: it raises, or has sizes that no plan is made for."""

    def settle(self) -> None:
        """The call runs eagerly now, or what asks for a capture without one asks once more."""


class ModelBuiltError(UncapturedCallError):
    """A call builds modules: it runs eagerly, and others do so for good if they go on to build."""


class FirstPassError(UncapturedCallError):
    """A call goes over a ``loader`` of which nobody has seen a batch: eager code shows them."""

    loader: Any = None

    def settle(self) -> None:
        self.loader.awaited = True


class PathError(CaptureError):
    """A size differs between paths, or depends on values in one: each path is captured by itself.

    ``site`` is the outermost construct whose paths these are; ``made_at`` is the line of one that
    is over, and that has made what is another on each path.
    """

    site: object = None

    def __init__(self, what: str, *, made_at: Location | None = None, **told: Any) -> None:
        super().__init__(what, **told)
        self.made_at = made_at


class PathObjectError(PathError):
    """Which object something is differs between paths: each path is captured by itself."""


class CutShortError(CaptureError):
    """A slice of a fixed length does not fit where a run begins it, and would be cut short."""


class LeakedValueError(CaptureError):
    """A traced value was used after its capture had ended."""


class TracedValueError(CaptureError, TypeError):
    """Python asked a traced value for its number (``float``, ``item``, ``numpy`` ...)."""

    fix_text = "return the tensor and read its value outside the hybridized function"

    def __init__(self, asked: str, value_type: str, *, at: Location | None = None) -> None:
        super().__init__(
            f"{asked} of a traced value was asked for",
            at=at,
            why=f"While a function is traced its tensors are placeholders ({value_type} here) "
            "without values.",
            fix=self.fix_text,
        )


class TracedBoolError(TracedValueError):
    """A Python ``if``, ``while``, ``and`` or ``not`` asked a traced value for its truth."""

    fix_text = "call hybrid.where to choose between tensors, or leave this function unhybridized"

    def __init__(self, asked: str, value_type: str, *, at: Location | None = None) -> None:
        super().__init__("the truth", value_type, at=at)


class BatchedValueError(HybridError, TypeError):
    """Inside ``vmap``, Python asked for the number in a tensor that differs from row to row."""

    def __init__(
        self, asked: str, value_type: str, rows: int, *, at: Location | None = None
    ) -> None:
        what = "the truth" if asked == "bool()" else asked
        super().__init__(
            f"{what} of a value that differs from row to row was asked for inside vmap",
            at=at,
            why=f"The function runs once for all {rows} rows, each of which has a {value_type} of "
            "its own here.",
            fix="choose between tensors with hybrid.where, or hybridize the function that vmap "
            "gets: its if, while and for then go each row's own way"
            if asked in ("bool()", "an index", "int()")
            else "return the tensor and read its values outside vmap",
        )


class RowSizeError(BatchedValueError):
    """Inside ``vmap``, elements were selected by a tensor that differs from row to row."""

    def __init__(self, value_type: str, rows: int, *, at: Location | None = None) -> None:
        HybridError.__init__(
            self,
            f"elements were selected by values ({value_type}) that differ from row to row inside "
            "vmap",
            at=at,
            why=f"The function runs once for all {rows} rows, each of which would have a size of "
            "its own.",
            fix="keep the shape: hybrid.where(mask, x, 0), with what changes no sum, product or "
            "maximum in place of 0; or select outside vmap",
        )


_NEEDS = {  # what to write instead, by what was asked
    "an index or size": "put the items into a tensor (hybrid.stack) and index that, or compute "
    "indices and sizes outside the hybridized function",
    "a NumPy array": "compute with the functions of hybrid, on a tensor (hybrid.asarray), in place "
    "of NumPy's",
}


class NeedsValue(CaptureError):
    """Python asked a traced number for its value; ``number`` is that number.

    No TypeError: Python and its libraries take one from ``__int__`` for "this is no number".
    """

    def __init__(
        self, asked: str, kind: str, number: object, *, at: Location | None = None
    ) -> None:
        super().__init__(
            f"{asked} needs the value of a traced {kind}",
            at=at,
            why="A number that is only known at run time (a loop's index, item(), what two "
            "branches set differently) has no value while the function is captured.",
            fix=_NEEDS.get(asked)
            or "keep it in arithmetic, comparisons, indexing of tensors and range(), or compute "
            "what needs its value outside the hybridized function",
        )
        self.number = number


class NumberRangeError(HybridError, OverflowError):
    """An int that is computed at run time left the range of 64 bits."""

    def __init__(self, value: int, *, at: Location | None = None) -> None:
        super().__init__(
            f"an int grew to {value.bit_length()} bits",
            at=at,
            why="Ints that are only known at run time have 64 bits in a hybridized function.",
            fix="use a float, or compute it outside the hybridized function",
        )


def locate(error: BaseException, location: Location | None) -> None:
    """Tell ``error`` where the author wrote what raised it."""
    if location is None:
        return
    if isinstance(error, HybridError):
        error.at = error.at or location
        return
    note = f"{location}\n    {location.line} | {location.text}"
    notes = getattr(error, "__notes__", [])
    if note not in notes:
        error.__notes__ = [*notes, note]  # what add_note() of Python 3.11 does


def named_kind(text: str) -> type[Exception]:
    """The class of exceptions that ``text`` begins with, Python's or ours; else ProgramError."""
    name = text.partition(":")[0]
    kind = getattr(builtins, name, globals().get(name))
    known = isinstance(kind, type) and issubclass(kind, Exception)
    return kind if known and kind is not NumberRangeError else ProgramError


def named_error(text: str) -> Exception:
    """The exception whose name ``text`` begins with, and which says the rest of it."""
    kind, said = named_kind(text), text.partition(": ")[2]
    try:
        if said and kind.__str__ is KeyError.__str__:  # which says how its argument is written
            return kind(_literal(said))
        if kind is not ProgramError:
            return kind(said) if said or issubclass(kind, HybridError) else kind()
    except TypeError:  # its class takes something else
        pass
    return ProgramError(text, why="Its class is known where the program was written alone.")


def _literal(text: str) -> Any:
    """The literal in ``text``, or the text where that is none."""
    import ast  # here: an error is rare, and importing hybrid common

    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


DOMAINS: dict[str, tuple[float, float, str]] = {  # by subject: its least and greatest value; a fix
    "exponent": (0, math.inf, "convert the base to a floating dtype"),
    "probability": (0, 1, "use sigmoid or softmax, or the loss that takes logits"),
    "variance": (0, math.inf, "make it positive, with softplus or exp for example"),
}


def domain_error(subject: str, value: str) -> ArgumentError:
    """The error of a tensor that holds ``value``, which no ``subject`` of ``DOMAINS`` may be."""
    least, greatest, fix = DOMAINS[subject]
    limits = f"from {least:g} to {greatest:g}" if greatest < math.inf else f"{least:g} or more"
    noun = "the exponent of an integer" if subject == "exponent" else f"a {subject}"
    return ArgumentError(f"{noun} is {value}", why=f"It must be {limits}.", fix=fix)


_PACKAGE = FOLDER + os.sep
# Paths of code that is none of the author's begin so.
_GENERATED: tuple[str, ...] = (_PACKAGE, "<frozen", "<binding>", "<record>", "<open call>")
_SHOWN = 2  # frames of this package behind the author's last one, in errors that it does not mean


def leave_frames_out(*folders: str) -> None:
    """Take code in ``folders`` for none of an author's: of what calls this package for one."""
    global _GENERATED
    _GENERATED = tuple(dict.fromkeys((*_GENERATED, *folders)))


def author_frame(frame: FrameType | None) -> FrameType | None:
    """``frame`` or the innermost one around it that does not run this package's own code."""
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_GENERATED):
            return frame
        frame = frame.f_back
    return None


def warn_author(text: str) -> None:
    """Warn of ``text`` at the author's line."""
    frame, level = sys._getframe(), 1
    author = author_frame(frame)
    while frame is not author and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def author_location() -> Location | None:
    """The innermost line on this thread's stack that is not this package's own."""
    frame = author_frame(sys._getframe(1))
    if frame is None:
        return None
    path, line = frame.f_code.co_filename, frame.f_lineno
    return Location(path, line, linecache.getline(path, line).strip())


def shorten(error: BaseException) -> None:
    """Leave frames of this package out of the traceback of ``error``, which goes to the author.

    Those of others stay, and the first one, which is about to be left.  Errors that are not the
    package's own say less, so the last frames stay, too.  ``HYBRID_TRACEBACK=full`` keeps all.
    """
    if os.environ.get("HYBRID_TRACEBACK") == "full":
        return
    seen: set[int] = set()
    chain: BaseException | None = error
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        if chain.__traceback__ is not None:
            _shorten(chain.__traceback__, 0 if isinstance(chain, HybridError) else _SHOWN)
        chain = chain.__cause__ or chain.__context__


def _shorten(kept: TracebackType, shown: int) -> None:
    """Leave frames of this package out behind ``kept``, all but the last ``shown`` at the end."""
    behind: list[TracebackType] = []
    trace = kept.tb_next
    while trace is not None:
        behind.append(trace)
        if not trace.tb_frame.f_code.co_filename.startswith(_GENERATED):
            kept.tb_next = kept = trace
            behind.clear()
        trace = trace.tb_next
    kept.tb_next = None
    for trace in behind[len(behind) - min(shown, len(behind)) :]:
        kept.tb_next = kept = trace


# Those that a kernel raises for what it finds in its operands, as eager code does.
RAISED_BY_KERNELS = (OutOfRangeError, LinearAlgebraError)
OF_CAPTURE = (CaptureError, GraphError, NativeError)  # those that eager code would not raise

# Folders of code that only a capture runs.
_CAPTURING = tuple(
    [
        os.path.join(FOLDER, part, "")
        for part in ("calls", "convert", "core", "number", "passes", "plan", "staging", "trace")
    ]
)


def ends_capture(error: BaseException | None) -> bool:
    """Whether ``error`` ends a capture: no handler of the author's may see it."""
    if error is None:
        return False
    return isinstance(error, (*OF_CAPTURE, CaptureSignal)) or is_interrupt(error) or is_fault(error)


def is_fault(error: BaseException | None) -> bool:
    """Whether ``error`` is a mistake of this package's own, which eager code would not meet.

    That is an assertion of the package that fails, and an attribute that code of captures asks for
    by its name (not by ``getattr``, in the place of the author's).
    """
    if not isinstance(error, (AssertionError, AttributeError)) or isinstance(error, HybridError):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    if isinstance(error, AttributeError):
        return code.co_filename.startswith(_CAPTURING) and error.name in code.co_names
    if not code.co_filename.startswith(_PACKAGE):
        return False
    return linecache.getline(code.co_filename, trace.tb_lineno).lstrip().startswith("assert ")
