"""Ranks that were recorded wait for each other on the network that they are played on."""

from __future__ import annotations

import pytest

from hybrid.errors import HybridError
from hybrid.simulation.network import Level, Network
from hybrid.simulation.recorded_step import RankStep, RecordedTransfer
from hybrid.simulation.replay import replayed

LEVEL = Level(alpha=1.0, rates=((1.0, 100.0),), message=2.0, compare=0.5)
LEVELS = dict.fromkeys(("core", "socket", "host"), LEVEL)


def network(ranks: int, cores: int = 64) -> Network:
    return Network(ranks=ranks, ranks_per_host=64, cores_per_host=cores, levels=LEVELS)


def moved(
    kind: str, peer: int = -1, given: int = 0, members: tuple = (0, 1), place: int = -1
) -> RecordedTransfer:
    return RecordedTransfer(
        name=kind,
        kind=kind,
        comm="world",
        members=members,
        given=given,
        nbytes=given,
        peer=peer,
        place=place,
        types="",
        at="",
    )


def rank(number: int, *gaps: float, transfers: list[RecordedTransfer], size: int = 2) -> RankStep:
    return RankStep(
        rank=number,
        size=size,
        transfers=tuple(transfers),
        gaps=gaps,
        seconds=0.0,
        steps=5,
        peak_bytes=0,
    )


def test_one_rank_waits_for_nobody() -> None:
    [found] = replayed([rank(0, 3.0, 4.0, transfers=[moved("barrier")])], network(2))
    assert (found.computing, found.communicating, found.waiting) == (7.0, 1.0, 0.0)
    assert found.seconds == 8.0


def test_all_wait_for_the_slowest() -> None:
    fast = rank(0, 1.0, 1.0, transfers=[moved("all_gather", given=100)])
    slow = rank(1, 5.0, 1.0, transfers=[moved("all_gather", given=100)])
    first, last = replayed([fast, slow], network(2))
    assert (first.waiting, last.waiting) == (4.0, 0.0)
    assert first.seconds == last.seconds == 8.0 and first.communicating == 2.0


def test_a_broadcast_waits_for_its_root_alone() -> None:
    root = rank(0, 1.0, 4.0, transfers=[moved("broadcast", peer=0)])
    other = rank(1, 3.0, 2.0, transfers=[moved("broadcast", peer=0)])
    first, last = replayed([root, other], network(2))
    assert first.waiting == last.waiting == 0.0 and first.seconds == 6.0


def test_messages_arrive_after_they_are_sent() -> None:
    """Two stages: the second has nothing to do until the first is done, and answers."""
    first = rank(0, 4.0, 0.0, 1.0, transfers=[moved("send", 1, 100), moved("recv", 1, 100)])
    second = rank(1, 0.0, 6.0, 0.0, transfers=[moved("recv", 0, 100), moved("send", 0, 100)])
    one, two = replayed([first, second], network(2))
    assert one.seconds == two.seconds == 4.0 + 3.0 + 6.0 + 3.0 + 1.0
    assert one.waiting == 1.5 + 6.0 + 1.5 and two.waiting == 1.5 + 1.0 + 4.0 + 1.5
    [alone] = replayed([second], network(2))
    assert alone.waiting == 0.0 and alone.seconds == 6.0 + 3.0


@pytest.mark.parametrize(
    ("per_host", "alone_for"),
    [(64, 7.0), (1, 5.0)],  # in a host, and between two
)
def test_what_is_waited_for_later(per_host: int, alone_for: float) -> None:
    """2 s of transfer beside 3 s of computing, which the other rank comes to 5 s later."""
    begun, waited = moved("all_gather", given=100, place=0), moved("wait", place=0)
    early = rank(0, 1.0, 3.0, 1.0, transfers=[begun, waited])
    late = rank(1, 6.0, 0.0, 0.0, transfers=[begun, waited])
    on = Network(ranks=2, ranks_per_host=per_host, cores_per_host=64, levels=LEVELS)
    found, other = replayed([early, late], on)
    assert (found.communicating, found.waiting, other.waiting) == (2.0, 1.0, 0.0)
    assert found.seconds == other.seconds == 8.0
    [alone] = replayed([early], on)
    assert alone.waiting == 0.0 and alone.seconds == alone_for  # between hosts nothing is left


def test_ranks_that_share_cores_compute_longer() -> None:
    [found] = replayed([rank(0, 3.0, 4.0, transfers=[moved("barrier")])], network(2, cores=1))
    assert found.computing == 14.0


def test_steps_that_do_not_fit_together() -> None:
    one = rank(0, 1.0, 1.0, transfers=[moved("recv", 1)])
    two = rank(1, 1.0, 1.0, transfers=[moved("barrier")])
    with pytest.raises(HybridError) as error:
        replayed([one, two], network(2))
    assert str(error.value) == (
        "the recorded ranks wait for each other for ever: recv on rank 0, barrier on rank 1\n"
        "Their steps do not have the same collectives.\n"
        "Fix: let all ranks do the same in each step, and five steps or more."
    )
