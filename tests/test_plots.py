"""Histories and confusion matrices: what the figures hold, and what they refuse."""

import io
import subprocess
import sys

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, MissingPackageError, ShapeError
from hybrid.plots import confusion_matrix, plot_confusion_matrix, plot_history


@pytest.fixture
def figures():
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")


def lines(axes):
    """What is drawn, by its label."""
    return {
        line.get_label(): (*[list(xy) for xy in line.get_data()], line.get_linestyle())
        for line in axes.get_lines()
    }


def drawn(figure):
    """The picture in bytes; a figure that cannot be drawn fails here."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    return file.getvalue()


# Histories ---------------------------------------------------------------------------------------

BY_NAME = {"loss": [3.0, 2.0, 1.0], "val_loss": [3.5, 2.5, 2.0], "accuracy": [0.1, 0.5, 0.9]}
BY_EPOCH = [dict(zip(BY_NAME, row, strict=True)) for row in zip(*BY_NAME.values(), strict=True)]
OF_TENSORS = {name: [hy.asarray(v, dtype=hy.float64) for v in row] for name, row in BY_NAME.items()}
IN_TENSORS = {name: hy.asarray(np.array(row)) for name, row in BY_NAME.items()}


@pytest.mark.parametrize("history", [BY_NAME, BY_EPOCH, OF_TENSORS, IN_TENSORS])
def test_a_history(figures, history):
    figure = plot_history(history, title="a title")
    losses, accuracy = figure.axes
    assert lines(losses) == {
        "loss": ([1, 2, 3], [3.0, 2.0, 1.0], "-"),
        "val_loss": ([1, 2, 3], [3.5, 2.5, 2.0], "--"),
    }
    assert [text.get_text() for text in losses.get_legend().get_texts()] == ["loss", "val_loss"]
    assert lines(accuracy) == {"accuracy": ([1, 2, 3], [0.1, 0.5, 0.9], "-")}
    assert accuracy.get_legend() is None
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "accuracy"]
    assert figure.get_suptitle() == "a title"
    assert drawn(figure).startswith(b"\x89PNG")


def test_epochs_without_a_number_are_passed_over(figures):
    rows = [{"loss": 3.0}, {"loss": 2.0, "val_loss": 9.0}, {"loss": float("nan")}, {"loss": 1.0}]
    (axes,) = plot_history(rows).axes
    assert lines(axes)["loss"][:2] == ([1, 2, 4], [3.0, 2.0, 1.0])
    assert lines(axes)["val_loss"][:2] == ([2], [9.0])
    assert [line.get_marker() for line in axes.get_lines()] == ["None", "o"]


def test_many_panels(figures):
    figure = plot_history({f"train_{i}": [1.0, 2.0] for i in range(5)} | {"val_": [1.0]})
    assert [axes.get_ylabel() for axes in figure.axes] == ["0", "1", "2", "3", "4", "val_"]
    assert figure.get_size_inches().tolist() == pytest.approx([3 * 4.8, 2 * 3.4])


def test_no_window_and_nothing_to_close(figures, tmp_path):
    program = (
        "import hybrid as hy, sys\n"
        "hy.plots.plot_history({'loss': [1.0, 2.0]})\n"
        "hy.plots.plot_confusion_matrix([0, 1], [0, 1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


FIX = '\nFix: give {"loss": [1.2, 0.7], "val_loss": [1.3, 0.9]} or [{"loss": 1.2}, {"loss": 0.7}].'


@pytest.mark.parametrize(
    ("history", "kind", "text"),
    [
        (3, ArgumentTypeError, "a history cannot be a int"),
        ([1.0, 2.0], ArgumentTypeError, "a history cannot be a list"),
        ({}, ArgumentError, "the history is empty"),
        ([], ArgumentError, "the history is empty"),
        ({"loss": []}, ArgumentError, "the history is empty"),
        ({3: [1.0]}, ArgumentTypeError, "the history has the name 3"),
        ({"a": 3.0}, ArgumentTypeError, "'a' of the history is not a sequence of numbers"),
        ({"a": ["x"]}, ArgumentTypeError, "'a' of the history is not a sequence of numbers"),
        ({"a": [[1.0]]}, ArgumentTypeError, "'a' of the history is not a sequence of numbers"),
        ([{"a": [1.0]}], ArgumentTypeError, "'a' of the history is not a sequence of numbers"),
    ],
)
def test_bad_histories(figures, history, kind, text):
    with pytest.raises(kind) as caught:
        plot_history(history)
    assert str(caught.value) == text + FIX


# Confusion matrices ------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [list, np.array, hy.asarray])
def test_how_often_one_was_taken_for_the_other(convert):
    found = confusion_matrix(convert([0, 1, 2, 2, 2]), convert([0, 2, 2, 2, 1]))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 2]] and found.dtype is hy.int64


def test_as_scikit_learn_has_it():
    from sklearn.metrics import confusion_matrix as expected

    draw = np.random.RandomState(0)
    true, found = draw.randint(0, 7, (2, 500))
    np.testing.assert_array_equal(confusion_matrix(true, found).numpy(), expected(true, found))
    assert confusion_matrix(true.astype(np.uint8), found.astype(np.int8)).sum().item() == 500


@pytest.mark.parametrize("dtype", [hy.float32, hy.bfloat16])
def test_scores_count_by_the_greatest(dtype):
    scores = hy.asarray([[0.1, 0.9, 0.0], [2.0, 1.0, 0.0]]).astype(dtype)
    scores.requires_grad = True
    assert confusion_matrix([1, 1], scores).tolist() == [[0, 0, 0], [1, 1, 0], [0, 0, 0]]


def test_the_number_of_classes():
    assert confusion_matrix([0], [0], 2).tolist() == [[1, 0], [0, 0]]
    assert confusion_matrix([0], [0], ["a", "b"]).tolist() == [[1, 0], [0, 0]]
    assert confusion_matrix([True, False], [True, True]).tolist() == [[0, 1], [0, 1]]
    assert confusion_matrix(np.zeros(0, int), np.zeros(0, int)).shape == (0, 0)
    assert confusion_matrix(np.zeros(0, int), np.zeros(0, int), 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (
            ([0, 1], [0]),
            ShapeError,
            "confusion_matrix cannot take targets [2] and predictions [1]\n"
            "It takes class numbers [N] and as many, or scores [N, classes].\nFix: change a shape.",
        ),
        (
            ([0], [0.5]),
            ArgumentTypeError,
            "predictions of confusion_matrix are float32\nClass numbers are ints.\n"
            "Fix: convert them with astype, or give scores [N, classes].",
        ),
        (
            ([0, -1], [0, 0]),
            ArgumentError,
            "targets of confusion_matrix have the class -1\nThere are 1 classes, from 0 on.\n"
            "Fix: leave such samples out, or give classes.",
        ),
        (
            ([0], [3], ["cat", "dog"]),
            ArgumentError,
            "predictions of confusion_matrix have the class 3\nThere are 2 classes, from 0 on.\n"
            "Fix: leave such samples out, or give classes.",
        ),
        (
            ([0], [0], "ab"),
            ArgumentTypeError,
            "classes are 'ab'\nFix: give their number, or their names.",
        ),
        (
            ([0], [0], 0),
            ArgumentTypeError,
            "classes are 0\nFix: give their number, or their names.",
        ),
    ],
)
def test_bad_classes(arguments, kind, text):
    with pytest.raises(kind) as caught:
        confusion_matrix(*arguments)
    assert str(caught.value) == text


def written(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_figure_of_the_matrix(figures):
    figure = plot_confusion_matrix([0, 0, 0, 1], [0, 0, 1, 1], ["cat", "dog"], title="pets")
    axes = figure.axes[0]
    assert written(figure) == ["2", "1", "0", "1"]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["cat", "dog"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("predicted", "true", "pets")
    assert drawn(figure).startswith(b"\x89PNG")


def test_shares(figures):
    figure = plot_confusion_matrix([0, 0, 0, 1], [0, 0, 1, 1], 3, normalize=True)
    assert written(figure) == ["0.67", "0.33", "0.00", "0.00", "1.00", *["0.00"] * 4]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array()[0], [2 / 3, 1 / 3, 0])


def test_many_classes_and_none(figures):
    classes = np.arange(100)
    figure = plot_confusion_matrix(classes, classes)
    assert written(figure) == [] and drawn(figure)
    labels = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert labels == [str(i) for i in range(0, 100, 5)]
    with pytest.raises(ArgumentError) as caught:
        plot_confusion_matrix(np.zeros(0, int), np.zeros(0, int))
    assert str(caught.value) == (
        "there are no classes to draw\nFix: give targets and predictions, or classes."
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("plot_history", [{"loss": [1.0]}]), ("plot_confusion_matrix", [[0], [0]])],
)
def test_without_matplotlib(name, arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingPackageError) as caught:
        getattr(hy.plots, name)(*arguments)
    assert str(caught.value) == (
        f"hybrid.plots.{name} needs the package matplotlib, which is not installed\n"
        'Fix: pip install "hybrid[plot]".'
    )
