"""Metrics: scikit-learn's numbers, whatever the batches; what does not fit is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn import metrics as reference

import hybrid as hy
from hybrid.train import F1, Accuracy, Mean, Metric, Precision, Recall, TopKAccuracy
from hybrid.train.metrics import NAMED, named

CLASSES = 5
random = np.random.RandomState(0)
SCORES = random.randn(57, CLASSES).astype(np.float32)
LABELS = random.randint(0, CLASSES - 1, 57)  # nothing of the last class
YES, TRUE = random.randn(57).astype(np.float32), random.randint(0, 2, 57)


def counted(metric: Metric, output, target, size=10):
    """Batch by batch, hybridized; then once more from scratch, eagerly."""
    update = hy.hybridize(metric.update)
    found = []
    for call in (update, metric.update):
        metric.reset()
        for at in range(0, len(target), size):
            call(hy.asarray(output[at : at + size]), hy.asarray(target[at : at + size]))
        found.append(metric.compute().item())
    assert found[0] == found[1]
    return found[0]


def test_accuracy():
    expected = reference.accuracy_score(LABELS, SCORES.argmax(1))
    assert counted(Accuracy(), SCORES, LABELS) == expected
    assert counted(Accuracy(axis=-1), SCORES, LABELS) == expected
    assert counted(Accuracy(), YES, TRUE) == reference.accuracy_score(TRUE, YES > 0)
    assert counted(Accuracy(threshold=0.5), YES, TRUE) == reference.accuracy_score(TRUE, YES > 0.5)
    assert counted(Accuracy(), YES[:, None], TRUE) == reference.accuracy_score(TRUE, YES > 0)
    assert counted(Accuracy(), YES[:, None], TRUE[:, None]) == reference.accuracy_score(
        TRUE, YES > 0
    )


def test_accuracy_of_positions():
    scores, labels = random.randn(12, CLASSES, 6), random.randint(0, CLASSES, (12, 6))
    expected = (scores.argmax(1) == labels).mean()
    assert counted(Accuracy(), scores, labels) == pytest.approx(expected, rel=1e-15)
    last = np.ascontiguousarray(np.moveaxis(scores, 1, -1))
    assert counted(Accuracy(axis=-1), last, labels) == pytest.approx(expected, rel=1e-15)
    kept = labels != 2
    assert counted(Accuracy(ignore=2), scores, labels) == pytest.approx(
        (scores.argmax(1) == labels)[kept].mean(), rel=1e-15
    )


@pytest.mark.parametrize("k", [1, 2, CLASSES - 1])
def test_top_k(k):
    expected = reference.top_k_accuracy_score(LABELS, SCORES, k=k, labels=range(CLASSES))
    assert counted(TopKAccuracy(k), SCORES, LABELS) == pytest.approx(expected, rel=1e-15)


SCIKIT = {
    F1: reference.f1_score,
    Precision: reference.precision_score,
    Recall: reference.recall_score,
}


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
@pytest.mark.parametrize("kind", SCIKIT)
def test_of_many_classes(kind, average):
    expected = SCIKIT[kind](
        LABELS, SCORES.argmax(1), labels=range(CLASSES), average=average, zero_division=0
    )
    metric = kind(CLASSES, average=average)
    assert counted(metric, SCORES, LABELS) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("kind", SCIKIT)
def test_of_two_classes(kind):
    expected = SCIKIT[kind](TRUE, YES > 0)
    assert counted(kind(), YES, TRUE) == pytest.approx(expected, rel=1e-15)
    both = np.stack([np.zeros_like(YES), YES], axis=1)
    assert counted(kind(), both, TRUE) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("kind", SCIKIT)
def test_targets_that_do_not_count(kind):
    labels = np.where(LABELS == 1, -100, LABELS)
    kept = labels >= 0
    expected = SCIKIT[kind](
        labels[kept], SCORES[kept].argmax(1), labels=range(CLASSES), average="macro",
        zero_division=0,
    )  # fmt: skip
    assert counted(kind(CLASSES, ignore=-100), SCORES, labels) == pytest.approx(expected, rel=1e-14)


def test_means_of_functions_weigh_batches_by_samples():
    expected = np.abs(YES - TRUE).mean()
    found = counted(Mean(hy.nn.functional.l1_loss), YES, TRUE.astype(np.float32))
    assert found == pytest.approx(expected, rel=1e-6)


def test_no_batch_is_nan():
    for metric in (Accuracy(), Mean(hy.nn.functional.l1_loss)):
        assert np.isnan(metric.compute().item())
    assert F1(3).compute().item() == 0


def test_state():
    metric = Accuracy()
    metric.update(hy.asarray(SCORES), hy.asarray(LABELS))
    state, value = copy.deepcopy(metric.state_dict()), metric.compute().item()
    other = Accuracy()
    other.load_state_dict(state)
    metric.reset()
    assert other.compute().item() == value and np.isnan(metric.compute().item())
    with pytest.raises(ValueError) as caught:
        other.load_state_dict({"wrong": 1})
    assert str(caught.value) == ("a state for Accuracy holds wrong\nIt consists of right, targets.")


def test_what_users_call_them():
    def error(output, target):
        return output

    assert named(None) == {} and next(iter(NAMED)) == "accuracy"
    assert [type(m) for m in named(["accuracy", "top5", F1(3), error]).values()] == [
        Accuracy, TopKAccuracy, F1, Mean,
    ]  # fmt: skip
    assert list(named(["accuracy", "top5", F1(3), error])) == ["accuracy", "top5", "f1", "error"]
    assert list(named({"mse", "mae", "f1"})) == ["f1", "mae", "mse"]
    assert list(named({"best": Accuracy, "f1": "F1"})) == ["best", "f1"]
    assert list(named("accuracy")) == ["accuracy"] and list(named(Recall())) == ["recall"]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda: named("exactness"),
            ValueError,
            "there is no metric 'exactness'\nFix: give one of",
        ),
        (lambda: named([3]), TypeError, "3 is no metric\nFix: give one of accuracy"),
        (lambda: Mean(3), TypeError, "Mean of 3\nFix: give a function of two tensors."),
        (lambda: TopKAccuracy(0), ValueError, "TopKAccuracy got k=0\nFix: give an int >= 1."),
        (lambda: F1(1), ValueError, "F1 got num_classes=1\nFix: give an int >= 2."),
        (
            lambda: Recall(3, average="all"),
            ValueError,
            "Recall got average='all'\nFix: give one of macro, micro, weighted.",
        ),
        (
            lambda: Accuracy().update(hy.zeros((4, 3)), hy.zeros((3,), dtype=hy.int64)),
            ValueError,
            "Accuracy got outputs f32[4,3] and targets i64[3]\nScores of classes lie along axis 1",
        ),
        (
            lambda: TopKAccuracy(5).update(hy.zeros((4, 3)), hy.zeros((4,), dtype=hy.int64)),
            ValueError,
            "TopKAccuracy(5) of outputs f32[4,3]: there are 3 classes",
        ),
        (
            lambda: F1().update(hy.zeros((4, 3)), hy.zeros((4,), dtype=hy.int64)),
            ValueError,
            "F1 of 2 classes got outputs f32[4,3]\nFix: give num_classes=3.",
        ),
        (
            lambda: Mean(lambda o, t: o - t).update(hy.zeros(4), hy.zeros(4)),
            ValueError,
            "Mean got values of shape (4,) for a batch\nFix: let the function give one number",
        ),
        (lambda: Metric().update(1, 2), NotImplementedError, "Metric does not define update()"),
        (lambda: Metric().compute(), NotImplementedError, "Metric does not define compute()"),
    ],
)
def test_what_does_not_fit_is_refused(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value).startswith(text)
