"""Early sums: buckets of gradients that are sent while ``backward()`` goes on.

Before::                                  After::

    gradients of layer 2                      gradients of layer 2
    gradients of layer 1                      queue the sum of bucket 0     (a thread makes it)
    sum of bucket 0: layer 2                  gradients of layer 1
    sum of bucket 1: layer 1                  queue the sum of bucket 1
                                              wait for both

Captured steps do so by the order of their plans; this is for eager code.  A bucket is queued as
soon as the gradients of all its members are final, and those of the buckets before it: so buckets
have one order on all ranks.  They go through a channel of their own, by the thread of a work queue:
what the main thread sends meanwhile needs no order among them.  When ``backward()`` returns, all is
over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.autodiff.cotangent_sums import Told
from hybrid.autodiff.presence import Ct, added, plain
from hybrid.core.types import TensorType, tensor_type
from hybrid.distributed.mpi_channel import GradientChannel
from hybrid.eager.execution import Eager
from hybrid.eager.fused_calls import plan_of
from hybrid.eager.launch import fill
from hybrid.eager.tensor import Tensor, make_tensor
from hybrid.errors import author_location
from hybrid.ir.interpreter import current
from hybrid.ir.record import Leaf, ShardLeaf
from hybrid.memory import native
from hybrid.memory.channels import CollectiveCall
from hybrid.plan import Plan

Place = tuple[int, int]  # a parameter and a shard, by number
OfBucket = Callable[[Sequence[int], Mapping[Place, Tensor], str, Sequence[bool]], list[Tensor]]
Users = Mapping[int, bool | Tensor]  # by parameter: True, or a flag, whether this rank has used it
# By parameter: the sum, and where this rank has not used it a flag, whether some rank has.
Sums = dict[int, tuple[Tensor, Tensor | None]]


class EarlySums:
    """The sums of one ``backward()``, of gradients of one model.

    ``sources`` are the leaves at which gradients by a parameter and shard arrive, in the order in
    which these are added; ``of_bucket`` makes the sums of some parameters through a channel, those
    of the last bucket with what ``with_uses`` makes flags of.
    """

    def __init__(
        self,
        channel: GradientChannel,
        buckets: Sequence[Sequence[int]],
        kinds: Sequence[TensorType],
        types: Sequence[TensorType],
        how: str,
        sources: Mapping[Place, Sequence[Leaf]],
        of_bucket: OfBucket,
        with_uses: Callable[[Sequence[int], Sequence[Tensor], Users], Sums],
    ) -> None:
        self.channel, self.buckets, self.kinds = channel, buckets, kinds
        self.types, self.how = types, how  # what ranks give of each bucket, and what becomes of it
        self._of_bucket, self._with_uses = of_bucket, with_uses
        number_of = {at: number for number, bucket in enumerate(buckets) for at in bucket}
        self._sources: list[dict[Place, Sequence[Leaf]]] = [{} for _ in buckets]
        self._missing = [0] * len(buckets)  # leaves of each that are not final
        self._bucket_of: dict[Leaf, int] = {}
        for place in sorted(sources):
            number = number_of.get(place[0])
            if number is None:  # nobody asks for this gradient any more
                continue
            self._sources[number][place] = sources[place]
            self._missing[number] += len(sources[place])
            self._bucket_of.update((leaf, number) for leaf in sources[place])
        self._grads: dict[Leaf, Tensor | None] = {}
        self._queued = 0  # buckets
        self._here: dict[int, bool | Tensor] = {}  # what has arrived on this rank
        self._found: list[Tensor] = []

    def __enter__(self) -> Told:
        """Raise CollectiveMismatchError unless all ranks are about to make the same sums."""
        at = self.channel.at = author_location()
        calls = [CollectiveCall("gradients", (type,), self.how, location=at) for type in self.types]
        self.channel.around.agree(calls, eager=True)
        return self.told

    def __exit__(self, _kind: Any, error: BaseException | None, _traceback: Any) -> None:
        if error is not None:  # go on only if it ends so on all ranks
            what = f"by {type(error).__name__}, after {self._queued} sums"
            call = CollectiveCall("end of backward()", attributes=what, location=author_location())
            self.channel.leave(call, waits=isinstance(error, Exception))

    def told(self, leaf: Leaf, ct: Ct | None) -> None:
        """The gradient at ``leaf`` is final; all that can be queued is, without waiting."""
        number = self._bucket_of.get(leaf)
        if number is None:
            return
        self._grads[leaf] = plain(ct)
        self._missing[number] -= 1
        while self._queued < len(self.buckets) and not self._missing[self._queued]:
            if not self.channel.queue.has_room(self.types[self._queued].nbytes):
                return
            self._queue()

    def finished(self, grads: Mapping[Leaf, Tensor | None]) -> Sums:
        """The sums by parameter, given the gradients of all leaves, once all is over."""
        self._grads.update(grads)
        while self._queued < len(self.buckets):
            self._queue()
        self.channel.queue.wait()
        fill(self._found)
        return self._with_uses(self._members(), self._found, self._here)

    def _members(self) -> list[int]:
        return [at for bucket in self.buckets for at in bucket]

    def _queue(self) -> None:
        number, members = self._queued, self.buckets[self._queued]
        self._queued += 1
        given: dict[Place, Tensor] = {}
        for place, leaves in self._sources[number].items():
            for leaf in leaves:
                if (term := self._grads.get(leaf)) is not None:
                    add_to(given, place, term)
        fill(list(given.values()))
        self._here.update({at: True for at, _ in given})
        is_last = self._queued == len(self.buckets)
        told = tuple([at in self._here for at in self._members()]) if is_last else ()
        plan = self._plan_of(members, {place: grad.type for place, grad in given.items()}, told)
        outputs = [native.allocate(type.nbytes) for type in plan.output_types]
        made = self.channel.queue.submit(plan, outputs, [grad.content for grad in given.values()])
        pairs = zip(plan.output_types, made, strict=True)
        self._found += [make_tensor(type, data) for type, data in pairs]

    def _plan_of(
        self, members: Sequence[int], types: Mapping[Place, TensorType], told: tuple[bool, ...]
    ) -> Plan:
        """The plan of the sums of ``members``, of gradients of such types."""

        def sums(*grads: Tensor) -> list[Tensor]:
            arrived = dict(zip(types, grads, strict=True))
            return self._of_bucket(members, arrived, self.channel.name, told)

        kinds = [(at, self.kinds[at]) for at in members]
        key = self.how, tuple(kinds), tuple(types.items()), told
        return self.channel.plan(key, lambda: plan_of("gradients", sums, list(types.values())))


def add_to(known: dict[Any, Any], key: Any, grad: Ct) -> None:
    """``grad`` is a further term of what ``known`` has under ``key``."""
    before = known.get(key)
    known[key] = grad if before is None else added(before, grad)


def sources_of(leaves: Sequence[Leaf], own: Mapping[Leaf, int]) -> dict[Place, list[Leaf]]:
    """The leaves among ``leaves`` by parameter and shard: stand-ins, then ``own`` ones."""
    found: dict[Place, list[Leaf]] = {}
    for leaf in leaves:
        if type(leaf) is ShardLeaf:
            found.setdefault(leaf.place, []).append(leaf)
    for leaf in leaves:
        if leaf in own:
            found.setdefault((own[leaf], 0), []).append(leaf)
    return found


def may_be_early() -> bool:
    """Whether what is computed now is computed at once, and by nobody else."""
    return type(current()) is Eager


def line_type(kinds: Sequence[TensorType], parts: int, dtype: Any, told: int) -> TensorType:
    """The type of what each rank gives of a bucket: gradients, and so many flags."""
    return tensor_type(dtype, (parts, sum([kind.size for kind in kinds]) + told))
