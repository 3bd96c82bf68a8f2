"""ZeRO: each rank keeps a slice of what all ranks would hold alike (Rajbhandari et al. 2020).

Of a parameter with ``size`` elements, rank r has those from ``r * share`` on, as many as ``share``:
the size by the number of ranks, rounded up; zeros fill up the last.  With ``zero=1`` moments are
kept so, with 2 gradients, too, with 3 the parameters themselves.  A step is done with slices; of
parameters that are to be whole they are gathered behind it, a bucket at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from hybrid import ops
from hybrid.config import advance_epoch
from hybrid.core.types import TensorType
from hybrid.eager.tensor import Tensor
from hybrid.ir.interpreter import ACTIVE
from hybrid.ir.record import Leaf, recording
from hybrid.memory.channels import Channel
from hybrid.nn.modules.parameter import SLICED
from hybrid.ops.communication.collectives import all_gather, gather_parameters
from hybrid.optim.group import Group, State
from hybrid.optim.optimizer import Optimizer
from hybrid.trace.values.optional import OptionalValue

Work = list[tuple[int, Tensor, Tensor, State]]


class StateSlices:
    """The slices of parameters, gradients and moments that this rank has."""

    def __init__(
        self,
        channel: Channel,
        parameters: Sequence[Tensor],
        buckets: Sequence[Sequence[int]],
        zero: int,
    ) -> None:
        self.channel, self.zero = channel, zero
        self.parameters, self.buckets = tuple(parameters), tuple(buckets)
        self.kinds = tuple([p.type for p in parameters])  # those of whole ones
        self.places = {id(p): at for at, p in enumerate(parameters)}
        self._parts: dict[int, Tensor] = {}  # eagerly, those of parameters that are whole

    def __deepcopy__(self, memo: dict[int, Any]) -> StateSlices:
        """Those of a copy of the model."""
        copies = [copy.deepcopy(p, memo) for p in self.parameters]
        made = memo[id(self)] = StateSlices(self.channel, copies, self.buckets, self.zero)
        made.kinds = self.kinds
        return made

    def __reduce__(self) -> Any:
        return _slices_of, (self.channel, self.parameters, self.buckets, self.zero, self.kinds)

    def kind_of(self, p: Tensor) -> TensorType:
        """The type of the whole parameter ``p``."""
        return self.kinds[self.places[id(p)]]

    def kind_of_leaf(self, leaf: Leaf) -> TensorType | None:
        """The type of the whole parameter with this leaf; None: it has none here any more."""
        for p, kind in zip(self.parameters, self.kinds, strict=True):
            if getattr(p, "leaf", None) is leaf:
                return kind
        return None

    # Slices and back --------------------------------------------------------------------------

    def share(self, kind: TensorType) -> int:
        """How many elements a rank has."""
        return -(-kind.size // self.channel.ranks)

    def mine(self, whole: Tensor) -> Tensor:
        """The slice of ``whole`` that this rank has."""
        share, size = self.share(whole.type), whole.size
        first = min(self.channel.rank * share, size)
        end = min(first + share, size)
        found = ops.reshape(whole, (-1,))[first:end]
        if end - first == share:
            return found
        return ops.concat([found, ops.zeros((share - (end - first),), dtype=whole.dtype)], axis=0)

    def rows(self, whole: Tensor) -> Tensor:
        """``whole`` as the slices of all ranks: [ranks, share]."""
        ranks, share = self.channel.ranks, self.share(whole.type)
        flat, rest = ops.reshape(whole, (-1,)), ranks * share - whole.size
        if rest:
            flat = ops.concat([flat, ops.zeros((rest,), dtype=whole.dtype)], axis=0)
        return ops.reshape(flat, (ranks, share))

    def wholes(
        self, parts: Sequence[Tensor], kinds: Sequence[TensorType], gather: Any = all_gather
    ) -> list[Tensor]:
        """What ``parts`` are slices of, of one dtype, gathered at once."""
        channel = self.channel
        line = parts[0] if len(parts) == 1 else ops.concat(list(parts), axis=0)
        found = gather(line, comm=channel.name, ranks=channel.ranks)
        rows = ops.reshape(found, (channel.ranks, -1))
        made, start = [], 0
        for kind in kinds:
            share = self.share(kind)
            flat = ops.reshape(rows[:, start : start + share], (-1,))
            made.append(ops.reshape(flat[: kind.size], kind.shape))
            start += share
        return made

    def gathered(self, late: bool) -> list[Tensor]:
        """The whole parameters, of slices; ``late``: plans may gather them where they are read."""
        gather = gather_parameters if late else all_gather
        found: dict[int, Tensor] = {}
        with recording(False):
            for bucket in self.buckets:
                parts = [self.parameters[at].detach() for at in bucket]
                for kind_dtype in dict.fromkeys(part.dtype for part in parts):
                    here = [at for at in bucket if self.kinds[at].dtype is kind_dtype]
                    given = [self.parameters[at].detach() for at in here]
                    kinds = [self.kinds[at] for at in here]
                    whole = self.wholes(given, kinds, gather)
                    found |= zip(here, whole, strict=True)
        return [found[at] for at in range(len(self.parameters))]

    # Setting up -------------------------------------------------------------------------------

    def take_over(self, optimizer: Optimizer) -> None:
        """Let the moments of ``optimizer``, and what else is to be, become slices."""
        for group in optimizer.param_groups:
            states = [
                State(tuple([self.mine(m.detach()) for m in state.moments]), state.counts)
                for state in group.states
            ]
            group.__dict__["states"] = tuple(states)
        optimizer.slices = self
        if self.zero == 3:
            for p in self.parameters:
                part = self.mine(p.detach())
                p.requires_grad = False
                p.type, p.content = part.type, part.content
                p.requires_grad = True
        if self.zero >= 2:
            for p in self.parameters:
                SLICED[p.leaf] = self
        advance_epoch()

    # The step of an optimizer -----------------------------------------------------------------

    def taken(self, work: Work) -> Work:
        """``work`` on slices."""
        if self.zero == 3:
            return work
        found = []
        for number, p, g, state in work:
            at, part = self.places[id(p)], self.mine(p.detach())
            if not ACTIVE:
                cell = self._parts.get(at)
                if cell is None:
                    cell = self._parts[at] = part
                cell.content, part = part.content, cell
            if self.zero == 1:
                some = isinstance(g, OptionalValue)  # there on some paths
                g = g.of(self.mine(g.value), g.flag) if some else self.mine(g)
            found.append((number, part, g, state))
        return found

    def put(self, given: Work, work: Work) -> None:
        """Let the parameters of ``given`` be what their slices in ``work`` have become."""
        if self.zero == 3:
            return
        parts = {
            self.places[id(p)]: part for (_, p, *_), (_, part, *_) in zip(given, work, strict=True)
        }
        for bucket in self.buckets:
            for dtype in dict.fromkeys(self.kinds[at].dtype for at in bucket):
                here = [at for at in bucket if at in parts and self.kinds[at].dtype is dtype]
                if here:
                    kinds = [self.kinds[at] for at in here]
                    whole = self.wholes([parts[at].detach() for at in here], kinds)
                    for at, value in zip(here, whole, strict=True):
                        self.parameters[at].assign(value)

    def whole_gradient(self, p: Tensor, grad: Tensor) -> Tensor:
        """The gradient of ``p`` by its slices."""
        return self.wholes([grad], [self.kinds[self.places[id(p)]]])[0]

    def on_any_rank(self, flag: Tensor) -> Tensor:
        """Whether ``flag`` is true on some rank."""
        channel = self.channel
        found = all_gather(ops.reshape(flag, (1,)), comm=channel.name, ranks=channel.ranks)
        return ops.any(found)

    # State ------------------------------------------------------------------------------------

    def whole_state(self, group: Group, state: Mapping[str, Tensor], at: int) -> dict[str, Tensor]:
        """The cells of parameter ``at`` of a group by name, moments whole."""
        kind = self.kinds[self.places[id(group.params[at])]]
        return {
            name: self.wholes([cell], [kind.with_dtype(cell.dtype)])[0] if cell.ndim else cell
            for name, cell in state.items()
        }

    def cut_state(self, groups: Sequence[Group], given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A state of whole moments as one of slices; what does not fit is left as it is."""
        if not isinstance(given, Mapping) or not {"state", "param_groups"} <= set(given):
            return given
        found = dict(given["state"])
        for group, told in zip(groups, given["param_groups"], strict=False):
            for p, key in zip(group.params, told.get("params", ()), strict=False):
                kind = self.kinds[self.places[id(p)]]
                if key in found:
                    found[key] = {n: self.cut(v, kind) for n, v in found[key].items()}
        return {**given, "state": found}

    def cut(self, value: Any, kind: TensorType) -> Any:
        """The slice of ``value`` if it is like a whole one."""
        shape = getattr(value, "shape", None)
        if shape is None or tuple(shape) != kind.shape:
            return value
        return self.mine(ops.as_tensor(value).detach())

    # State of a model whose parameters are slices -----------------------------------------------

    def whole_parameters(self, module: Any, state: dict[str, Any], prefix: str, _: Any) -> None:
        """After ``state_dict()``: whole parameters in place of slices."""
        whole = self.gathered(late=False)
        for name, p in module.named_parameters(remove_duplicate=False):
            at = self.places.get(id(p))
            if at is not None and prefix + name in state:
                state[prefix + name] = whole[at]

    def cut_parameters(self, module: Any, state: dict[str, Any], prefix: str, *_: Any) -> None:
        """Before ``load_state_dict``: slices in place of whole parameters."""
        for name, p in module.named_parameters(remove_duplicate=False):
            at = self.places.get(id(p))
            if at is not None and prefix + name in state:
                state[prefix + name] = self.cut(state[prefix + name], self.kinds[at])


def _slices_of(channel: Channel, parameters: Any, buckets: Any, zero: int, kinds: Any) -> Any:
    made = StateSlices(channel, parameters, buckets, zero)
    made.kinds = kinds
    return made
