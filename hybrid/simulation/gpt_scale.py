"""Training of large GPTs on many ranks: seconds and memory of a step, by counts and measured rates.

A step computes 6 operations for each weight and token, and 12 width length for each token and block
in attention (forward and backward; J. Kaplan et al., "Scaling laws for neural language models",
2020, appendix B).  A rank computes one sequence after the other.  All numbers are float32, and Adam
has two moments.  How ranks share the work is how this package does it: with ``zero=3`` parameters
are whole while the model is called; ranks of a pipeline hold their stages (``hold_stages``), the
first one the embeddings, too, which the last one reads as well.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Iterator
from typing import Any

import hybrid as hy
from hybrid.core.dataclass import dataclass
from hybrid.memory import native
from hybrid.memory.channels import transfer_nbytes
from hybrid.models.gpt import Block, Config
from hybrid.simulation.network import Network

FLOAT = 4  # bytes
ROUNDS = 5  # of measurement
BUCKET = 1 << 20  # bytes of gradients that are summed up at once
WAYS = ("DP", "ZeRO 1", "ZeRO 2", "ZeRO 3", "TP x PP x DP")
# Of what a block keeps for each token: the part that ranks along "tp" do not share, which is the
# input of norms and what is added up (V. Korthikanti et al., "Reducing activation recomputation in
# large transformer models", 2022, equation 2).
NOT_SHARED = 10 / 34


@dataclass(frozen=True, slots=True)
class LargeGPT:
    """A model by its sizes (T. Brown et al., "Language models are few-shot learners", 2020)."""

    name: str
    depth: int
    width: int
    heads: int
    tokens: int = 50304  # the vocabulary
    length: int = 2048

    @property
    def weights(self) -> int:
        """All parameters: blocks, embeddings of tokens and places, and the last norm."""
        d = self.width
        return self.depth * (12 * d * d + 13 * d) + self.embedding + self.length * d + 2 * d

    @property
    def embedding(self) -> int:
        """The parameters of the embedding of tokens, which makes their logits, too."""
        return self.tokens * self.width

    def weights_of_stage(self, stages: int) -> float:
        """The parameters of the first of so many stages, which has the most."""
        before = self.embedding + self.length * self.width
        return before + (self.weights - before) / stages

    @property
    def operations(self) -> int:
        """Floating-point operations of a step on one sequence."""
        blocks = 12 * self.depth * self.width**2 + self.embedding
        return self.length * (6 * blocks + 12 * self.depth * self.width * self.length)


SIZES = (
    LargeGPT(name="GPT of 1.3 billion", depth=24, width=2048, heads=16),
    LargeGPT(name="GPT of 13 billion", depth=40, width=5120, heads=40),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Hosts: operations per second of a core, bytes of a host, and what a block keeps.

    ``kept`` are the bytes that a block keeps for each token and feature, until it has gone back.
    """

    rate: float
    memory: float
    kept: float
    source: str


@dataclass(frozen=True, slots=True)
class ScaledStep:
    """One step: how it is shared, its seconds, the bytes of each rank; or ``why`` it cannot be."""

    way: str
    ranks: int
    layout: tuple[int, int, int]  # tp, pp, dp
    nbytes: float = 0.0  # that come to a rank
    computing: float = 0.0
    idle: float = 0.0  # at the ends of a pipeline
    communicating: float = 0.0
    states: float = 0.0  # bytes of parameters, gradients and moments
    activations: float = 0.0
    why: str = ""

    @property
    def seconds(self) -> float:
        return self.computing + self.idle + self.communicating

    @property
    def memory(self) -> float:
        return self.states + self.activations

    @property
    def efficiency(self) -> float:
        """The part of the time in which it computes."""
        return self.computing / self.seconds if self.seconds else 0.0


@functools.cache
def measured_block(
    width: int = 1024, length: int = 256, rounds: int = ROUNDS
) -> tuple[float, float]:
    """Operations per second of one thread in a block, and the bytes that it keeps, see Machine."""
    threads = native.num_threads()
    native.set_num_threads(1)
    try:
        block = Block(Config(tokens=1, block=length, width=width, heads=width // 128))

        def step(x: Any, ct: Any) -> Any:
            for p in block.parameters():
                p.grad = None
            x = x.detach()
            x.requires_grad = True
            (block(x) * ct).sum().backward()
            return x.grad

        run = hy.hybridize(step)
        x = hy.random.normal(size=(1, length, width))
        run(x, x)
        seconds = []
        for _ in range(rounds):
            begun = time.perf_counter()
            run(x, x).numpy()
            seconds.append(time.perf_counter() - begun)
        operations = length * (6 * 12 * width**2 + 12 * width * length)
        kept = run.plans[0].arena_nbytes / (length * width)
        return operations / statistics.median(seconds), kept
    finally:
        native.set_num_threads(threads)


def scaled(model: LargeGPT, network: Network, machine: Machine, batch: int) -> list[ScaledStep]:
    """A step on ``batch`` sequences by the ranks of ``network``, shared in each of ``WAYS``."""
    found = [
        _checked(_data_parallel(model, network, machine, batch, zero), network, machine)
        for zero in range(4)
    ]
    meshes = [
        _checked(_mesh(model, network, machine, batch, layout), network, machine)
        for layout in layouts(model, network, batch)
    ]
    fitting = [step for step in meshes if not step.why]
    if fitting:
        found.append(min(fitting, key=lambda step: step.seconds))
    elif meshes:
        found.append(min(meshes, key=lambda step: step.memory))
    else:
        why = "too few rows"
        found.append(ScaledStep(way=WAYS[4], ranks=network.ranks, layout=(1, 1, 1), why=why))
    return found


def layouts(model: LargeGPT, network: Network, batch: int) -> Iterator[tuple[int, int, int]]:
    """The meshes tp x pp x dp that can be: tp within a host, stages of equal numbers of blocks."""
    for tp in (1, 2, 4, 8, 16, 32):
        if tp > network.on_host or model.heads % tp or network.ranks % tp:
            continue
        for pp in range(1, model.depth + 1):
            if model.depth % pp or network.ranks % (tp * pp):
                continue
            dp = network.ranks // (tp * pp)
            if dp <= batch and batch % dp == 0:
                yield tp, pp, dp


def _checked(step: ScaledStep, network: Network, machine: Machine) -> ScaledStep:
    room = machine.memory / network.on_host
    if step.why or step.memory <= room:
        return step
    return ScaledStep(
        way=step.way,
        ranks=step.ranks,
        layout=step.layout,
        states=step.states,
        activations=step.activations,
        why=f"needs {step.memory / 2**30:,.0f} GiB",
    )


def _computing(model: LargeGPT, network: Network, machine: Machine, batch: int) -> float:
    """Seconds of all that is computed, if all ranks do equally much of it."""
    rate = machine.rate * network.threads / network.slowdown
    return model.operations * batch / (network.ranks * rate)


def _activations(model: LargeGPT, machine: Machine, blocks: float, shared: int = 1) -> float:
    """Bytes that are kept of one sequence: by ``blocks``, and for the loss."""
    part = NOT_SHARED + (1 - NOT_SHARED) / shared
    kept = machine.kept * model.length * model.width * blocks * part
    return kept + 2 * FLOAT * model.length * model.tokens / shared


class _Traffic:
    """What a rank transfers in a step: seconds, and the bytes that come to it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.seconds = self.nbytes = 0.0

    def add(self, kind: str, given: int, members: tuple[int, ...], times: float) -> None:
        """So many transfers of a kind, each of ``given`` bytes of an operand."""
        self.seconds += times * self.network.seconds(kind, given, members)
        self.nbytes += times * transfer_nbytes(kind, given, len(members))

    def scatter(self, nbytes: float, members: tuple[int, ...]) -> None:
        """Each rank adds its part of ``nbytes`` that all have, a bucket at a time."""
        self.add("all_to_all", BUCKET, members, nbytes / BUCKET)

    def gather(self, nbytes: float, members: tuple[int, ...], times: int = 1) -> None:
        """Each rank gets all parts of ``nbytes``, a bucket at a time."""
        self.add("all_gather", BUCKET // len(members), members, times * nbytes / BUCKET)


def _data_parallel(
    model: LargeGPT, network: Network, machine: Machine, batch: int, zero: int
) -> ScaledStep:
    n, whole = network.ranks, FLOAT * model.weights
    if n > batch or batch % n:
        why = "too few rows"
        return ScaledStep(way=WAYS[zero], ranks=n, layout=(1, 1, n), why=why)
    members = tuple(range(n))
    traffic = _Traffic(network)
    traffic.scatter(whole, members)
    # With 1 all ranks have whole gradients, and gather what they have stepped; with 3 parameters
    # are gathered for each call.
    traffic.gather(whole, members, {1: 2, 3: batch // n}.get(zero, 1))
    parts = {  # bytes of parameters, gradients and moments
        0: whole + whole + 2 * whole,
        1: whole + whole + 2 * whole / n,
        2: whole + whole / n + 2 * whole / n,
        3: whole + whole / n + whole / n + 2 * whole / n,  # whole ones, while it is called
    }
    return ScaledStep(
        way=WAYS[zero],
        ranks=n,
        layout=(1, 1, n),
        computing=_computing(model, network, machine, batch),
        communicating=traffic.seconds,
        nbytes=traffic.nbytes,
        states=parts[zero],
        activations=_activations(model, machine, model.depth),
    )


def _mesh(
    model: LargeGPT,
    network: Network,
    machine: Machine,
    batch: int,
    layout: tuple[int, int, int],
) -> ScaledStep:
    """Heads and features by tp, blocks by pp, rows by dp, in this order within hosts."""
    tp, pp, dp = layout
    microbatches = batch // dp
    computing = _computing(model, network, machine, batch)
    rows = FLOAT * model.length * model.width  # bytes between two blocks
    own = FLOAT * model.weights_of_stage(pp) / tp  # bytes of the parameters of a rank
    traffic = _Traffic(network)
    if tp > 1:  # two sums in each block forward, two back (M. Shoeybi et al., Megatron-LM, 2019)
        sums = 4 * model.depth // pp * microbatches
        traffic.add("all_reduce", rows, tuple(range(tp)), sums)
    if pp > 1:  # to the next stage, and back; the embedding goes to the last, two gradients to all
        traffic.add("send", rows, (0, tp), 2 * microbatches)
        traffic.add("broadcast", FLOAT * model.embedding // tp, tuple(range(0, tp * pp, tp)), 3)
    if dp > 1:
        members = tuple(range(0, network.ranks, tp * pp))
        traffic.scatter(own, members)
        traffic.gather(own, members)
    under_way = min(pp, microbatches)
    blocks = model.depth / pp * under_way
    return ScaledStep(
        way=WAYS[4],
        ranks=network.ranks,
        layout=layout,
        computing=computing,
        idle=computing * (pp - 1) / microbatches,  # D. Narayanan et al., 2021, section 2.2
        communicating=traffic.seconds,
        nbytes=traffic.nbytes,
        states=4.0 * own,
        activations=_activations(model, machine, blocks, tp),
    )


def powers(most: int) -> list[int]:
    """Numbers of ranks for a table: 1, 4, 16 ... up to ``most``."""
    found = [4**k for k in range(int(math.log(most, 4) + 1e-9) + 1)]
    return found if found[-1] == most else [*found, most]
