"""Look a call up among the plan files, or capture it and store its plan.

The file of a capture is named by its digest: all that guards would look at, and the versions
of all that made it.  So nothing is guessed: either everything is as it was, or there is no file.
Guards are made anew, of the objects of this process; where what is kept fits them, the plan serves
this call and all later ones as if it had been captured here.
"""

from __future__ import annotations

import functools
import marshal
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hybrid import config
from hybrid.calls.executable import Planned
from hybrid.calls.families import NONE, NumberInputs
from hybrid.calls.files.digest import ReadsDigest
from hybrid.calls.files.entry_reader import Malformed, read_entry
from hybrid.calls.files.loaded_guards import LoadedGuards
from hybrid.calls.files.store import FORMAT, Damaged, load, path_of, save, warn
from hybrid.calls.files.tokens import Unkeepable, blake2b
from hybrid.calls.files.trust import Untrusted
from hybrid.calls.open_families import MOST
from hybrid.config import is_configured, plan_budget, plan_cache
from hybrid.core.dataclass import dataclass
from hybrid.core.package import FOLDER, __version__
from hybrid.core.timing import phase
from hybrid.core.tree import flatten
from hybrid.eager.thread_state import STATE
from hybrid.ir.interpreter import ACTIVE
from hybrid.memory import native
from hybrid.trace.capture.captured_graph import Capture
from hybrid.trace.guards.reads import Reads

_OPTIONS = ("mode", "optimize", "name")  # those that a capture depends on
KEPT, LOADED = "kept in a file", "loaded from a file"


def open_digest(found: ReadsDigest, number: int) -> str:
    """Return the digest of the open captures of a family, by their number."""
    return f"{found.digest}-{number}"


class Lookup:
    """Callable that returns the Capture of a call, from a file or else from ``trace``."""

    def __init__(
        self,
        function: Callable[..., Any],
        given: tuple[Sequence[Any], dict[str, Any]],
        leaves: Sequence[Any],
        key: Any,
        options: dict[str, Any],
        trace: Callable[[NumberInputs], Capture],
    ) -> None:
        self.function, self.given, self.leaves = function, given, leaves
        self.key, self.options, self.trace = key, options, trace
        found = plan_cache()
        assert found is not None
        self.folder, self.limit = found
        self.tries: list[_CaptureVariant] = []  # a family may capture a call in several ways
        # Of an open capture for all sizes: its digest, or why there is none.
        self.opened: ReadsDigest | None = None
        self.open_reason = ""
        # What captures are served from that are for all sizes, before one is traced for these.
        self.load_open: Callable[[], Capture | None] = lambda: None

    def __call__(self, free: NumberInputs) -> Capture:
        found, capture, reason = None, None, ""
        with phase("load"), STATE:
            try:
                reads = self._reads(free)
                # Made first: what other threads change from now on the guards find changed.
                guards = LoadedGuards(reads, is_configured)
                found = self._digest(reads, free)
                capture = self._load(found.digest, found, guards)
            except Unkeepable as error:
                reason = str(error.args[0])
            if capture is None and not free and not reason:
                capture = self.load_open()
        loaded = capture is not None
        capture = self.trace(free) if capture is None else capture
        self.tries.append(_CaptureVariant(capture, free, found, loaded, reason))
        return capture

    def _reads(self, free: NumberInputs) -> Reads:
        if ACTIVE:
            raise Unkeepable("it was called inside a transform or another capture")
        if free.places:
            raise Unkeepable("numbers outside its arguments are inputs of it")
        return Reads(self.function, list(self.leaves))

    def _digest(self, reads: Reads, free: NumberInputs, *, opens: bool = False) -> ReadsDigest:
        _, keys, recording, aliases, many = self.key
        tensors = [len(key) == 2 and type(key[1]) is bool for key in keys]
        about = (
            *environment(),
            config.RESIDUAL_NBYTES,
            [(name, self.options[name]) for name in _OPTIONS],
            ReadsDigest.structure(flatten(self.given)[1]),
            (recording, aliases, many, len(self.leaves), tensors),
        )
        items = [(item,) for item in about]
        return ReadsDigest(reads, self.leaves, items, free.numbers, opens=opens)

    def _load(self, digest: str, found: ReadsDigest, guards: LoadedGuards) -> Capture | None:
        path = path_of(self.folder, digest)
        try:
            entry = load(self.folder, digest)
            if entry is None:
                return None
            return read_entry(entry, found, self.leaves, guards)
        except (Damaged, Malformed) as error:
            warn(path, f"the plan kept in {path} cannot be used, it is captured anew: {error}")
            return None
        except Untrusted as error:
            warn(self.folder, f"plans in {self.folder} are not used: {error}")
            return None

    def open_captures(self, looked: set[str]) -> Iterator[Capture]:
        """Yield the open captures in files that are not of a digest in ``looked``."""
        with phase("load"), STATE:
            reads = self._look_open()
            if self.opened is None or reads is None or self.opened.digest in looked:
                return
            looked.add(self.opened.digest)
            for number in range(MOST):
                guards = LoadedGuards(reads, is_configured)
                digest = open_digest(self.opened, number)
                found = self._load(digest, self.opened, guards)
                if found is None or found.open_axes is None:
                    return
                found.filed = LOADED
                yield found

    def _look_open(self) -> Reads | None:
        """What the digest of open captures is of, which is made now; None where there is none."""
        try:
            reads = self._reads(NONE)
            self.opened = self._digest(reads, NONE, opens=True)
        except Unkeepable as error:
            self.open_reason = str(error.args[0])
            return None
        return reads

    def keep_open(self, capture: Capture) -> None:
        """Write an open capture to a file, if it can be kept in one."""
        from hybrid.calls.files.entry_writer import build_entry

        with phase("keep"), STATE:
            if self.opened is None and not self.open_reason:
                self._look_open()
            reason = self.open_reason
            if self.opened is not None:
                reason = self._written(
                    NONE, self.opened, self._free_digest(self.opened),
                    lambda found: build_entry(capture, None, found), opens=True,
                )  # fmt: skip
        capture.filed = f"not kept in a file: {reason}" if reason else KEPT

    def _free_digest(self, found: ReadsDigest) -> str:
        """Return the name of the next file for an open capture."""
        names = [open_digest(found, number) for number in range(MOST)]
        free = [n for n in names if not os.path.exists(path_of(self.folder, n))]
        return free[0] if free else names[-1]

    def _require_unchanged(
        self, free: NumberInputs, found: ReadsDigest, *, opens: bool = False
    ) -> None:
        """Raise if the capture itself has changed the digest of what it reads."""
        now = self._digest(self._reads(free), free, opens=opens)
        if now.digest != found.digest or list(map(id, now.objects)) != list(map(id, found.objects)):
            raise Unkeepable("capturing it has changed what it reads: a cached property, say")

    def settle(self, planned: Planned) -> bool:
        """Store a captured plan; return whether the plan serves the call."""
        made = next((found for found in self.tries if found.capture is planned.capture), None)
        if made is None or made.loaded:
            planned.filed = planned.capture.filed or LOADED
            if planned.filed == LOADED and planned.capture.open_axes is not None:
                native.set_budget(planned.plan.handle, plan_budget())  # as plans of other files
            return planned.serves(self.leaves)
        with phase("keep"):
            reason = self._keep(made, planned) if made.found is not None else made.reason
        planned.filed = f"not kept in a file: {reason}" if reason else KEPT
        return True

    def _keep(self, made: _CaptureVariant, planned: Planned) -> str:
        """Write the plan to its file; return the reason if it is not written, else ""."""
        from hybrid.calls.files.entry_writer import build_entry  # which loading does without

        precomputed = planned.precomputed
        early = ((), None) if precomputed is None else (precomputed.cells, precomputed.plan)
        plans = planned.plan, *early
        assert made.found is not None
        return self._written(
            made.free, made.found, made.found.digest,
            lambda found: build_entry(planned.capture, plans, found),
        )  # fmt: skip

    def _written(
        self,
        free: NumberInputs,
        found: ReadsDigest,
        digest: str,
        entry: Callable[[ReadsDigest], dict[str, Any]],
        *,
        opens: bool = False,
    ) -> str:
        """Write the ``entry`` of a capture; return the reason if it is not written, else ""."""
        try:
            self._require_unchanged(free, found, opens=opens)
            save(self.folder, digest, entry(found), self.limit)
        except Unkeepable as error:
            return str(error.args[0])
        except Untrusted as error:
            warn(self.folder, f"plans in {self.folder} are not used: {error}")
            return str(error)
        except OSError as error:
            reason = error.strerror or str(error)
            warn(self.folder, f"no plans are kept in {self.folder}: {reason}")
            return reason
        return ""


@dataclass(frozen=True, slots=True)
class _CaptureVariant:
    """One capture of the call, for one choice of input numbers."""

    capture: Capture
    free: NumberInputs
    found: ReadsDigest | None
    loaded: bool  # whether it came from a file
    reason: str  # why it is not to be kept, known before it was made


@functools.lru_cache(maxsize=1)
def environment() -> tuple[Any, ...]:
    """Return what all captures of a process depend on: versions, instruction set, Python."""
    return (
        FORMAT, __version__, build(), native.isa(), sys.version, sys.implementation.name,
        sys.platform, sys.byteorder, tuple(sys.flags), np.__version__,
    )  # fmt: skip


def build(root: str = FOLDER) -> str:
    """Return a digest of the files of the package at ``root``, by their sizes and times."""
    found: list[tuple[str, int, int]] = []
    folders = [root]
    for folder in folders:
        with os.scandir(folder) as listing:
            for item in listing:
                name = item.name
                if name.endswith((".py", ".so", ".pyd")):
                    about = item.stat()
                    found.append((item.path, about.st_size, about.st_mtime_ns))
                elif "." not in name and name != "__pycache__" and item.is_dir():
                    folders.append(item.path)
    return blake2b(marshal.dumps(sorted(found), 2), digest_size=20).hexdigest()
