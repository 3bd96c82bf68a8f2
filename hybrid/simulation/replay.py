"""Steps of ranks, played again on a network: when each computes, transfers, and waits for others.

Ranks that were recorded wait for each other as real ones do: in a collective for the last of its
members, in a receipt for the message.  Those that were not are taken never to be late.  Of what is
waited for later, the part between hosts goes on meanwhile; in a host ranks copy bytes themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hybrid.core.dataclass import dataclass, field
from hybrid.errors import HybridError
from hybrid.plan.traffic import WAIT
from hybrid.simulation.network import Network
from hybrid.simulation.recorded_step import RankStep, RecordedTransfer

TIMES = 3  # steps that are played: the first ones begin together, the last one counts


@dataclass(frozen=True, slots=True)
class PlayedStep:
    """Seconds of a step of one rank, which are those of what it does."""

    rank: int
    seconds: float
    computing: float
    communicating: float
    waiting: float


@dataclass(slots=True)
class _Meeting:
    """A collective: when each of those who are waited for has come to it."""

    expected: frozenset[int]
    came: dict[int, float] = field(default_factory=dict)

    @property
    def begins(self) -> float | None:
        """When all had come; None: not all have."""
        if not self.expected <= set(self.came):
            return None
        return max([self.came[rank] for rank in self.expected], default=0.0)


class _Player:
    """One rank: where it is in its steps, and its time."""

    def __init__(self, step: RankStep, slowdown: float) -> None:
        self.step, self.slowdown = step, slowdown
        self.place = self.steps = 0
        self.now = self.computing = self.communicating = self.waiting = 0.0
        self.ends: list[float] = []
        self.sums: list[tuple[float, float, float]] = []
        self.arrived = False  # at the transfer that is next
        self.rounds: dict[tuple[str, tuple[int, ...]], int] = {}
        self.under_way: dict[int, tuple[_Meeting, float, float]] = {}  # by place: when it began

    @property
    def over(self) -> bool:
        return self.steps == TIMES

    def compute(self) -> RecordedTransfer | None:
        """Go on to the next transfer; None when a step is over."""
        if not self.arrived:
            seconds = self.step.gaps[self.place] * self.slowdown
            self.now += seconds
            self.computing += seconds
            self.arrived = True
        if self.place < len(self.step.transfers):
            return self.step.transfers[self.place]
        self.steps += 1
        self.place, self.arrived = 0, False
        self.ends.append(self.now)
        self.sums.append((self.computing, self.communicating, self.waiting))
        return None

    def transfer(self, begins: float, seconds: float) -> None:
        """Do the transfer that is next, which takes so long once it begins."""
        waits = max(begins - self.now, 0.0)
        self.waiting += waits
        self.communicating += seconds
        self.now += waits + seconds
        self.place += 1
        self.arrived = False


class _Board:
    """What ranks have told each other so far."""

    def __init__(self, players: Sequence[_Player], network: Network) -> None:
        self.players = {player.step.rank: player for player in players}
        self.network = network
        self.messages: dict[tuple[int, int, str], deque[float]] = {}
        self.meetings: dict[tuple[str, tuple[int, ...], int], _Meeting] = {}

    def advance(self, player: _Player) -> bool:
        """Let a rank go on as far as it can; whether it has come any further."""
        begun = (player.steps, player.place)
        while not player.over:
            transfer = player.compute()
            if transfer is not None and not self._done(player, transfer):
                break
        return (player.steps, player.place) != begun

    def _done(self, player: _Player, transfer: RecordedTransfer) -> bool:
        me, members = player.step.rank, transfer.members
        if transfer.kind in ("send", "recv"):
            return self._message(player, transfer, me, members[transfer.peer])
        if transfer.kind == WAIT:
            return self._wait(player, transfer.place)
        group = transfer.comm, members
        number = player.rounds.get(group, 0)
        if transfer.kind == "agree":
            expected = frozenset[int]()
        elif transfer.kind == "broadcast":  # nobody but its root is waited for
            expected = frozenset([members[transfer.peer]]) & set(self.players)
        else:
            expected = frozenset(members) & set(self.players)
        meeting = self.meetings.setdefault((*group, number), _Meeting(expected))
        meeting.came.setdefault(me, player.now)
        near, far = self.network.parts(transfer.kind, transfer.given, members)
        if transfer.place >= 0:  # it is waited for later
            player.under_way[transfer.place] = meeting, near, far
            player.transfer(player.now, 0.0)
        elif meeting.begins is None:
            return False
        else:
            player.transfer(meeting.begins, near + far)
        player.rounds[group] = number + 1
        return True

    def _wait(self, player: _Player, place: int) -> bool:
        meeting, near, far = player.under_way[place]
        begins = meeting.begins
        if begins is None:
            return False
        left = max(max(begins, meeting.came[player.step.rank]) + far - player.now, 0.0)
        late = min(max(begins - player.now, 0.0), left)
        player.transfer(player.now + late, left - late + near)
        return True

    def _message(self, player: _Player, transfer: RecordedTransfer, me: int, other: int) -> bool:
        ends = (me, other) if transfer.kind == "send" else (other, me)
        seconds = self.network.seconds(transfer.kind, transfer.given, ends)
        if transfer.kind == "send":  # half of the way is its own work; it does not wait
            player.transfer(player.now, seconds / 2)
            self.messages.setdefault((*ends, transfer.comm), deque()).append(player.now)
            return True
        if other not in self.players:
            player.transfer(player.now, seconds / 2)
            return True
        waiting = self.messages.get((*ends, transfer.comm))
        if not waiting:
            return False
        player.transfer(waiting.popleft(), seconds / 2)
        return True


def replayed(steps: Sequence[RankStep], network: Network) -> tuple[PlayedStep, ...]:
    """A step of each of the recorded ranks on ``network``, once all are in their stride."""
    players = [_Player(step, network.slowdown) for step in steps]
    board = _Board(players, network)
    while not all(player.over for player in players):
        if not any([board.advance(player) for player in players]):
            stuck = [player for player in players if not player.over]
            what = [f"{p.step.transfers[p.place].name} on rank {p.step.rank}" for p in stuck]
            raise HybridError(
                f"the recorded ranks wait for each other for ever: {', '.join(what)}",
                why="Their steps do not have the same collectives.",
                fix="let all ranks do the same in each step, and five steps or more",
            )
    return tuple([_last(player) for player in players])


def _last(player: _Player) -> PlayedStep:
    """What the last step took."""
    before, after = player.sums[-2:]
    computing, communicating, waiting = (b - a for a, b in zip(before, after, strict=True))
    return PlayedStep(
        rank=player.step.rank,
        seconds=player.ends[-1] - player.ends[-2],
        computing=computing,
        communicating=communicating,
        waiting=waiting,
    )
