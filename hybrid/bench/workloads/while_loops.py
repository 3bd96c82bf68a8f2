"""Loops that end when a tensor says so: while_loop, and beam_search, which decodes."""

from typing import Any

import hybrid as hy
from hybrid.bench.bits import require_same_bits
from hybrid.bench.compare.problems import SMALL, STEP, newton
from hybrid.bench.peers import peers, require_agreement
from hybrid.bench.registry import BenchError, Case, workload

VOCABULARY, HIDDEN = 40, 32
WIDTH, LONGEST = 4, 60
BEGIN, END = 0, 1


class Decoder(hy.nn.Module):
    """The likelihood of each next word, given the last one and what is remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = hy.nn.Parameter(hy.random.normal(size=(VOCABULARY, HIDDEN)))
        self.memory = hy.nn.Linear(HIDDEN, HIDDEN)
        self.output = hy.nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, words: hy.Tensor, state: hy.Tensor) -> tuple[hy.Tensor, hy.Tensor]:
        state = hy.tanh(hy.take(self.embedding, words, axis=0) + self.memory(state))
        return hy.log_softmax(self.output(state), axis=-1), state


def largest(values: hy.Tensor, count: int) -> tuple[hy.Tensor, hy.Tensor]:
    """The ``count`` largest elements and their places, the largest first."""
    found, places = [], []
    for _ in range(count):
        place = hy.argmax(values)
        found.append(values[place])
        places.append(place)
        values[place] = -hy.inf
    return hy.stack(found), hy.stack(places)


def beam_search(decoder: Decoder, state: hy.Tensor) -> tuple[hy.Tensor, hy.Tensor, int]:
    """The most likely texts found, their log-likelihoods, and how many words were looked at."""
    texts = hy.full((WIDTH, LONGEST + 1), END)
    texts[:, 0] = BEGIN
    scores = hy.full(WIDTH, -hy.inf)
    scores[0] = 0.0  # the beams are all alike at first: let one of them count
    ended = hy.zeros(WIDTH, dtype=hy.bool)
    only_end = hy.where(hy.arange(VOCABULARY) == END, 0.0, -hy.inf)
    length = 0
    while length < LONGEST:
        likely, state = decoder(texts[:, length], state)
        likely = hy.where(ended[:, None], only_end, likely)
        scores, places = largest((scores[:, None] + likely).reshape((-1,)), WIDTH)
        beams, words = places // VOCABULARY, places % VOCABULARY
        state = hy.take(state, beams, axis=0)
        texts = hy.take(texts, beams, axis=0)
        length += 1
        texts[:, length] = words
        ended = hy.take(ended, beams) | (words == END)
        if hy.all(ended):
            break
    return texts, scores, length


@workload("beam_search", f"{WIDTH} beams over {VOCABULARY} words, up to {LONGEST}, until all end")
def beam_search_() -> list[Case]:
    hy.random.seed(5)
    decoder = Decoder()
    for parameter in decoder.parameters():
        parameter.requires_grad = False  # inference: nothing is recorded
    starts = [hy.random.normal(size=(WIDTH, HIDDEN)) for _ in range(8)]

    def decode(state: hy.Tensor) -> Any:
        return beam_search(decoder, state)

    captured = hy.hybridize(decode)

    def check() -> dict[str, str]:
        lengths = []
        for state in starts:
            result = decode(state)
            require_same_bits("beam_search", result, captured(state))
            lengths.append(result[2])
        if len(set(lengths)) == 1 or min(lengths) == LONGEST:
            raise BenchError(f"beam_search: no text ends before another: {lengths}")
        if len(captured.plans) != 1:
            raise BenchError(f"beam_search: {len(captured.plans)} plans for states all alike")
        return {"words": f"{', '.join(map(str, lengths))}, by one plan"}

    ways = {
        "eager": lambda: [decode(state) for state in starts],
        "hybridized": lambda: [captured(state) for state in starts],
    }
    return [Case(label=f"{len(starts)} texts", ways=ways, check=check)]


def settle(x: hy.Tensor) -> hy.Tensor:
    while hy.max(hy.abs(x)) > SMALL:
        x = x - STEP * hy.sin(x)
    return x


def count_steps(x: hy.Tensor) -> int:
    """How many iterations ``settle`` makes."""
    steps = 0
    while hy.max(hy.abs(x)) > SMALL:
        x = x - STEP * hy.sin(x)
        steps += 1
    return steps


@workload(
    "while_loop",
    "x - 0.1 sin(x) on 64 float32 until all are small: one iteration of 800",
    first_look=("one iteration",),
)
def while_loop() -> list[Case]:
    x = hy.asarray(newton().inputs[0])
    captured = hy.hybridize(settle)
    steps = count_steps(x)
    others = peers("while_loop", "64")

    def check() -> dict[str, str]:
        result = settle(x)
        require_same_bits("while_loop", result, captured(x))
        require_same_bits("while_loop: iterations", steps, hy.hybridize(count_steps)(x))
        require_agreement("while_loop", {"result": result / SMALL}, others)
        return {"iterations": f"{steps}, of which the times are those of one"}

    ways = {"eager": lambda: settle(x), "hybridized": lambda: captured(x), **others}
    return [Case(label="one iteration", ways=ways, check=check, threads=1, parts=steps)]
