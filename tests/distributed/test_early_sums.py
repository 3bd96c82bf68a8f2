"""Eager backward sends buckets of gradients while it goes on: when, which bits, and how it ends."""

from __future__ import annotations

import pytest

from tests.distributed.ranks import launched, require_well

JOB = "early_sums.py"
OVER = "then RankFailedError communication has ended before this"
DIED = "rank 1 has failed: it was killed by signal 9 (SIGKILL)"


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_gradients_are_sent_early_to_the_same_bits(ranks: int) -> None:
    require_well(ranks, JOB)


SAID = {
    "raise": (
        "0: CollectiveMismatchError the ranks of 'world gradients' do different collectives\n"
        "0:   rank 0: parts_total f32[1,4] shards=2 (FILE:LINE)\n"
        "0:   rank 1: end of backward() by ValueError, after 1 sums "
        "(FILE:LINE) (FILE:LINE); True\n",
        "1: ValueError bad luck; True\n",
        f"0: {OVER}\n",
        f"1: {OVER}\n",
    ),
    "kill": (
        f"0: RankFailedError {DIED}; here; True\n",
        "0: then RankFailedError rank 1 has failed\n",
    ),
    "hang": (
        "0: RankTimeoutError parts_total f32[1,4] shards=2 waited 2.0 s for rank 1; here; True\n",
        f"0: {OVER}\n",
    ),
    "interrupt": (
        "0: KeyboardInterrupt; True\n",
        f"0: {OVER}\n",
        "1: RankFailedError rank 0 has failed: it ended with code 5; here; True\n",
    ),
    "interrupt_walk": (
        "0: KeyboardInterrupt; True\n",
        f"0: {OVER}\n",
        "1: RankFailedError rank 0 has failed: it ended with code 5; here; True\n",
    ),
}


@pytest.mark.parametrize("how", SAID)
def test_the_end_of_a_backward_in_the_middle(how: str) -> None:
    done = launched(2, "early_endings.py", how)
    assert done.returncode == 1
    for text in SAID[how]:
        assert text in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("alike", "ValueError bad luck; True\n"),
        ("unlike", "CollectiveMismatchError the ranks of 'world' do different collectives, "
         "number 3 of them\n"),
    ],
)  # fmt: skip
def test_ranks_go_on_after_what_all_were_told(how: str, said: str) -> None:
    done = launched(2, "early_endings.py", how)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"{rank}: {said}" in done.stdout and f"{rank}: all is well\n" in done.stdout
    if how == "unlike":
        assert done.stdout.count("rank 0: gradients f32[1,12] shards=2 zero=0 (FILE:LINE)\n") == 2
        assert (
            done.stdout.count("rank 1: gradients f32[1,5] shards=2 zero=0 (FILE:LINE); True\n") == 2
        )
