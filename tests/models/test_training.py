"""Every example learns the same bits eagerly and hybridized, in one plan, and reaches its goal."""

import numpy as np
import pytest

import hybrid as hy
from hybrid.models.examples import EXAMPLES
from hybrid.models.training import Training
from tests.helpers import same

STEPS = 3
SLOW = {"resnet20", "mobilenet", "mixer", "unet", "gpt"}  # 4 seconds and more each

examples = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)


def first_steps(training):
    """The losses of ``STEPS`` steps, and all that they have changed."""
    losses = [loss for loss, _ in zip(training.epoch(), range(STEPS), strict=False)]
    model, optimizer = training.model, training.optimizer
    moments = [m for kept in optimizer.state.values() for m in kept.values()]
    cells = [cell for group in optimizer.param_groups for cell in group.cells]
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return [*losses, *model.state_dict().values(), *grads, *moments, *cells]


@examples
def test_steps_and_scores_have_the_same_bits(example) -> None:
    found = []
    for hybridized in (False, True):
        training = Training(example, epochs=1, hybridized=hybridized)
        found.append([*first_steps(training), hy.asarray(training.score())])
    assert all(same(a, b) for a, b in zip(*found, strict=True))
    assert len(training.step.plans) == 1
    begun = example.make().state_dict().values()
    assert len(found[0]) > STEPS + len(begun)


@examples
@pytest.mark.parametrize("training", [True, False])
def test_outputs_and_gradients_have_the_same_bits(example, training) -> None:
    batch = next(iter(Training(example, epochs=1).batches))[:1]
    found = []
    for hybridized in (False, True):
        hy.random.seed(1)
        model = example.make().train(training).hybridize(hybridized)
        outputs = model(*(t[:5] for t in batch))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum((output * output).sum() for output in outputs).backward()
        assert all(p.grad is not None for p in model.parameters())
        state = model.state_dict().values()
        found.append([*outputs, *(p.grad for p in model.parameters()), *state])
    assert all(same(a, b) for a, b in zip(*found, strict=True))
    assert len(model.plans) == 1


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(e, marks=[pytest.mark.nightly] if e.name in SLOW else [], id=e.name)
        for e in EXAMPLES.values()
    ],
)
def test_what_the_table_says_is_reached(example) -> None:
    training = Training(example)
    losses = [np.mean([loss.item() for loss in training.epoch()]) for _ in range(training.epochs)]
    assert losses[-1] < losses[0]
    score = training.score()
    assert example.task.reached(score, example.reaches), score
    assert len(training.step.plans) == 1


@pytest.mark.nightly
@examples
def test_an_epoch_has_the_same_bits(example) -> None:
    found = []
    for hybridized in (False, True):
        training = Training(example, epochs=1, seed=3, hybridized=hybridized)
        losses = list(training.epoch())
        assert len(losses) * example.batch_size == training.samples
        found.append([*losses, *training.model.state_dict().values()])
        found[-1].append(hy.asarray(training.score()))
    assert all(same(a, b) for a, b in zip(*found, strict=True))


def test_the_seed_decides() -> None:
    example = EXAMPLES["vae"]  # its steps draw, too
    runs = [first_steps(Training(example, epochs=1, seed=seed)) for seed in (4, 4, 5)]
    assert all(map(same, *runs[:2]))
    assert not same(runs[0][0], runs[2][0])


def test_scoring_learns_nothing() -> None:
    training = Training(EXAMPLES["mobilenet"], epochs=1)
    first_steps(training)
    before = {name: t.numpy().tobytes() for name, t in training.model.state_dict().items()}
    assert training.score() == training.score()
    after = {name: t.numpy().tobytes() for name, t in training.model.state_dict().items()}
    assert before == after


def test_the_learning_rate_ends_at_nothing_after_the_epochs() -> None:
    training = Training(EXAMPLES["lstm"], epochs=2)
    rates = []
    for _ in range(2):
        for _ in training.epoch():
            rates.append(training.optimizer.lr)
    assert max(rates) == pytest.approx(4e-3, rel=1e-2) and rates[-2] < 1e-6
