"""LeNet-5 has the sizes of the paper."""

import hybrid as hy
from hybrid.models.lenet import LeNet


def test_parameters_are_those_of_the_paper() -> None:
    table = hy.summary(LeNet(), hy.zeros((1, 1, 32, 32)))
    counts = {name: table[name].parameters for name in ("conv1", "conv2", "fc1", "fc2", "fc3")}
    assert counts == {"conv1": 156, "conv2": 2416, "fc1": 48120, "fc2": 10164, "fc3": 850}
    assert table.parameters == 61706  # with all maps of the second convolution seeing all


def test_other_classes_and_colours() -> None:
    assert LeNet(classes=3, channels=3)(hy.zeros((2, 3, 32, 32))).shape == (2, 3)
