"""Steps that move bytes between processes, by functions in place of MPI's: waits and refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hybrid._native import ffi, lib

from tests.csrc.specs import NativeFailure, Spec, find, require_refused, run
from tests.csrc.test_plan_refusals import change, several
from tests.csrc.test_stream import Stream

RANKS, BYTE, COMM = 3, 7, 0x44000000
GIVES, TAKES = np.arange(4, dtype=np.float32), np.zeros(12, np.float32)


class Library:
    """Gathers without anybody else: each rank gives the same; over when ``tests`` are used up."""

    def __init__(self) -> None:
        self.tests = self.code = 0

        @ffi.callback("int(void *, int, int, void *, int, int, int, int *)")
        def gather(gives, count, byte, takes, room, kind, comm, request):
            assert (byte, kind, comm, count) == (BYTE, BYTE, COMM, room)
            for r in range(RANKS):
                ffi.memmove(takes + r * count, gives, count)
            request[0] = 5
            return self.code

        @ffi.callback("int(int *, int *, void *)")
        def test(request, over, status):
            assert request[0] == 5
            self.tests -= 1
            over[0] = self.tests < 0
            return 0

        self.kept = gather, test
        spec = ffi.new("hyb_mpi *", {"pointers": 0, "byte": BYTE})
        for name in ("all_gather", "all_to_all", "broadcast", "barrier"):
            setattr(spec, name, ffi.cast("void (*)(void)", gather))
        spec.test = ffi.cast("void (*)(void)", test)
        self.channel = lib.hyb_channel_open(spec, COMM, 1, RANKS)


LIBRARY = Library()


@pytest.fixture
def library() -> Iterator[Library]:
    yield LIBRARY
    LIBRARY.tests = LIBRARY.code = 0
    lib.hyb_channels_stop(0)


def moved(kind: int = lib.HYB_TRANSFER_GATHER, root: int = 0, place: int = -1) -> Spec:
    """One step that gathers external 0 in external 1."""
    spec = Spec()
    _move(spec, spec.external(GIVES.nbytes), spec.external(TAKES.nbytes), kind, root, place)
    return spec


def _move(spec: Spec, gives: int, takes: int, kind: int, root: int, place: int) -> None:
    spec.step([(gives, GIVES)], [(takes, TAKES)])
    attrs = {"first_attr": len(spec.attrs), "n_attrs": 4}
    spec.steps[-1].update(kind=lib.HYB_STEP_TRANSFER, kernel=0, **attrs)
    spec.attrs += [LIBRARY.channel, kind, root, place]


def moved_beside(wait: bool = True) -> Spec:
    """A gathering that is under way while external 2 becomes external 3, and external 1 after."""
    spec = Spec()
    gives, takes = spec.external(GIVES.nbytes), spec.external(TAKES.nbytes)
    x, y = spec.external(GIVES.nbytes), spec.external(GIVES.nbytes)
    _move(spec, gives, takes, lib.HYB_TRANSFER_GATHER, 0, 3)
    spec.step([(x, GIVES)], [(y, GIVES)], kernel=find("exp", "float32"))
    if wait:
        _move(spec, gives, takes, lib.HYB_TRANSFER_WAIT, 0, 3)
    return spec


def test_a_transfer_ends_when_the_library_says_so(library: Library) -> None:
    begun = lib.hyb_channel_begun(library.channel, 0)
    for tests in (0, 3, 2000):
        library.tests, takes = tests, np.zeros_like(TAKES)
        run(moved().create(), GIVES, takes)
        assert takes.tolist() == GIVES.tolist() * RANKS
    assert lib.hyb_channel_begun(library.channel, 0) == begun + 3
    assert lib.hyb_channel_begun(library.channel, 2) == begun + 5


@pytest.mark.parametrize("wait", [True, False], ids=["waited for", "left to the end"])
def test_a_transfer_is_under_way_while_others_compute(library: Library, wait: bool) -> None:
    plan = moved_beside(wait).create()
    for tests in (0, 1, 2, 2000):
        library.tests, takes, y = tests, np.zeros_like(TAKES), np.zeros_like(GIVES)
        run(plan, GIVES, takes, GIVES, y)
        assert takes.tolist() == GIVES.tolist() * RANKS
        np.testing.assert_allclose(y, np.exp(GIVES), rtol=1e-6)
        assert library.tests == -1  # it is asked until it is over, and no more


def test_what_is_under_way_ends_before_its_place_is_taken(library: Library) -> None:
    spec = moved(place=2)
    _move(spec, 0, 1, lib.HYB_TRANSFER_GATHER, 0, 2)
    _move(spec, 0, 1, lib.HYB_TRANSFER_WAIT, 0, 2)
    _move(spec, 0, 1, lib.HYB_TRANSFER_WAIT, 0, 2)  # for nothing
    library.tests, takes = 40, np.zeros_like(TAKES)
    run(spec.create(), GIVES, takes)
    assert takes.tolist() == GIVES.tolist() * RANKS and library.tests == -2


def test_what_is_under_way_ends_when_a_step_fails(library: Library) -> None:
    spec = moved_beside()
    spec.steps[1].update(kind=lib.HYB_STEP_HOST, kernel=1)
    plan = spec.create()
    found, _kept = asked_by(plan, lambda _: lib.HYB_CANCELLED)
    library.tests = 5
    with pytest.raises(NativeFailure, match=r"^cancelled at step 1"):
        run(plan, GIVES, TAKES, GIVES, np.zeros_like(GIVES))
    assert found == [(1, False)] and library.tests == -1


def test_a_wait_that_the_host_ends_says_where_the_transfer_began(library: Library) -> None:
    plan = moved_beside().create()
    found, _kept = asked_by(plan, lambda times: lib.HYB_CANCELLED if times == 2 else lib.HYB_OK)
    library.tests = 10**9
    with pytest.raises(NativeFailure, match=r"^cancelled at step 0"):
        run(plan, GIVES, np.zeros_like(TAKES), GIVES, np.zeros_like(GIVES))
    assert found == [(0, True)] * 2


def asked_by(plan: Any, answer: Callable[[int], int]) -> tuple[list[Any], Any]:
    """What the host of ``plan`` is asked, and what keeps it: ``answer`` gets how often it was."""
    found: list[Any] = []

    @ffi.callback("int32_t(void *, int32_t, void *const *)")
    def host(context: Any, number: int, data: Any) -> int:
        found.append((number, data == ffi.NULL))
        return answer(len(found))

    lib.hyb_plan_set_host(plan, host, ffi.NULL)
    return found, host


def test_what_takes_long_asks_the_host(library: Library) -> None:
    plan = moved().create()
    found, _kept = asked_by(plan, lambda times: lib.HYB_CANCELLED if times == 3 else lib.HYB_OK)
    library.tests = 10**9
    with pytest.raises(NativeFailure, match=r"^cancelled at step 0"):
        run(plan, GIVES, np.zeros_like(TAKES))
    assert found == [(0, True)] * 3


def test_a_thread_that_nobody_waits_for_leaves_the_cores_to_others(library: Library) -> None:
    library.tests, takes = many, _ = 1 << 40, np.zeros_like(TAKES)
    with Stream() as stream:
        number = stream.submit(moved().create(), GIVES, takes)
        time.sleep(0.1)
        assert 0 < many - library.tests < 1000
        library.tests = 0
        assert stream.wait(number) == 1 and stream.failure() == (0, 0)
    assert takes.tolist() == GIVES.tolist() * RANKS


def test_a_library_that_fails_asks_the_host_why(library: Library) -> None:
    plan = moved().create()
    found, _kept = asked_by(plan, lambda _: lib.HYB_OK)
    library.code = 15
    with pytest.raises(NativeFailure, match=r"RankFailedError: MPI has failed with code 15"):
        run(plan, GIVES, np.zeros_like(TAKES))
    assert found == [(0, True)]


def test_stopped_channels_ask_before_they_begin(library: Library) -> None:
    lib.hyb_channels_stop(1)
    plan = moved().create()
    _found, _kept = asked_by(plan, lambda _: lib.HYB_HOST_FAILED)
    begun = lib.hyb_channel_begun(library.channel, 0)
    with pytest.raises(NativeFailure, match="host"):
        run(plan, GIVES, np.zeros_like(TAKES))
    assert lib.hyb_channel_begun(library.channel, 0) == begun


def agreeing(root: int) -> Spec:
    spec = moved(lib.HYB_TRANSFER_AGREE, root)
    spec.steps[0].update(n_in=0, n_out=0)
    return spec


def test_ranks_agree_once_and_eager_calls_while_that_is_asked_for(library: Library) -> None:
    plan = agreeing(0).create()
    found, _kept = asked_by(plan, lambda times: lib.HYB_CANCELLED if times == 1 else lib.HYB_OK)
    with pytest.raises(NativeFailure):
        run(plan, GIVES, TAKES)
    for _ in range(3):
        run(plan, GIVES, TAKES)
    assert found == [(0, False)] * 2
    plan = agreeing(1).create()
    found, _kept = asked_by(plan, lambda _: lib.HYB_OK)
    for compare in (1, 1, 0, 1):
        lib.hyb_channels_compare(compare)
        run(plan, GIVES, TAKES)
    assert len(found) == 3


def attr(at: int, value: int) -> Callable[[Spec], None]:
    def apply(spec: Spec) -> None:
        spec.attrs[at] = value

    return apply


BROKEN: dict[str, tuple[Callable[[Spec], None], str]] = {
    "no channel": (attr(0, 255), "transfer 0 by channel 255"),
    "a channel below 0": (attr(0, -1), "transfer 0 by channel -1"),
    "a channel beyond ints": (attr(0, 1 << 40), f"transfer 0 by channel {1 << 40}"),
    "an unknown kind": (attr(1, 6), "transfer 6 by channel 0"),
    "a place beyond the last": (attr(3, lib.HYB_MOST_UNDER_WAY), "transfer 0 in place 4"),
    "a place below none": (attr(3, -2), "transfer 0 in place -2"),
    "a wait for no place": (attr(1, lib.HYB_TRANSFER_WAIT), "transfer 5 in place -1"),
    "a barrier that is waited for": (
        several(attr(1, 3), attr(3, 0)),
        "transfer 3 in place 0",
    ),
    "a root of others": (attr(2, RANKS), "1 inputs, 1 outputs and root 3 of a transfer"),
    "no input": (
        change("steps", 0, n_in=0, n_out=2),
        "0 inputs, 2 outputs and root 0 of a transfer",
    ),
    "a barrier of bytes": (attr(1, 3), "1 inputs, 1 outputs and root 0 of a transfer"),
    "too few attributes": (
        change("steps", 0, n_attrs=2),
        "extra operands, attributes or ops, which only kernels have",
    ),
    "less room": (
        change("operands", 1, shape=[11]),
        "16 bytes cannot become 44 by transfer 0 of 3 ranks",
    ),
    "an exchange of other sizes": (
        attr(1, 1),
        "16 bytes cannot become 48 by transfer 1 of 3 ranks",
    ),
    "an exchange in uneven parts": (
        several(attr(1, 1), change("operands", 1, shape=[4])),
        "16 bytes cannot become 16 by transfer 1 of 3 ranks",
    ),
    "an input with gaps": (
        several(change("operands", 0, shape=[2], strides=[8]), change("operands", 1, shape=[6])),
        "8 bytes cannot become 24 by transfer 0 of 3 ranks",
    ),
    "an output with gaps": (
        several(change("operands", 1, shape=[6], strides=[8]), change("operands", 0, shape=[2])),
        "output 0 is not contiguous",
    ),
    "an output over its input": (
        several(change("operands", 1, slot=0, shape=[4]), change("slots", 0, nbytes=48)),
        "output 0 overlaps operand 0",
    ),
    "no host function": (change("steps", 0, kernel=-1), "host function -1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_steps_are_refused(name: str) -> None:
    broken, message = BROKEN[name]
    require_refused(moved, broken, f"step 0: {message}")


def test_a_channel_needs_functions_and_a_rank_of_its_own() -> None:
    assert lib.hyb_channel_open(ffi.NULL, COMM, 0, 1) == -1
    spec = ffi.new("hyb_mpi *")
    assert lib.hyb_channel_open(spec, COMM, 0, 1) == -1
    assert lib.hyb_channel_begun(99, 0) == -1 and lib.hyb_channel_ranks(99) == 0
