"""Every layer: what it computes, its parameters, its repr, and the same bits when hybridized."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hybrid as hy
from hybrid import nn
from hybrid.core.tree import flatten, unflatten
from tests.helpers import same
from tests.nn import layer_cases, loss_cases, stateful_cases
from tests.nn.layer_cases import Case

CASES: list[Case] = [
    *layer_cases.ACTIVATIONS,
    *layer_cases.SHAPES,
    *layer_cases.PADS,
    *layer_cases.WINDOWS,
    *stateful_cases.NORMS,
    *stateful_cases.TABLES,
    *stateful_cases.RECURRENT,
    *stateful_cases.ATTENTION,
    *stateful_cases.DROPOUT,
    *loss_cases.LOSSES,
]
IDS = [f"{i}-{case.name}" for i, case in enumerate(CASES)]
HOLDERS = {"Module", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}

every_case = pytest.mark.parametrize("case", CASES, ids=IDS)


PROMISED = """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d
    AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss
    BatchNorm1d BatchNorm2d BatchNorm3d Bilinear CELU CTCLoss ChannelShuffle CircularPad1d
    CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d
    ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity
    CrossEntropyLoss Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag
    FeatureAlphaDropout Flatten Fold GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink
    Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d
    InstanceNorm2d InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell
    LayerNorm LeakyReLU Linear LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss
    MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish Module ModuleDict
    ModuleList MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention
    NLLLoss PReLU PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle
    PoissonNLLLoss RMSNorm RNN RNNCell RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d
    ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU
    Sigmoid SmoothL1Loss SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign
    Tanh Tanhshrink Threshold Transformer TransformerDecoder TransformerDecoderLayer
    TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss
    Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d
    ZeroPad3d
"""


def test_the_layers_that_people_know_are_there() -> None:
    assert [name for name in PROMISED.split() if not hasattr(nn, name)] == []


def test_every_layer_has_a_case() -> None:
    layers = {n for n, v in vars(nn).items() if isinstance(v, type) and issubclass(v, nn.Module)}
    assert layers - {case.name for case in CASES} == HOLDERS


def made(case: Case) -> nn.Module:
    """The layer in the mode of the case, with statistics and parameters that tell places apart."""
    hy.random.seed(1)
    module = case.make().train(case.training)
    draw = np.random.default_rng(5)
    for _, cell in [*module.named_parameters(), *module.named_buffers()]:
        if cell.dtype.is_floating:
            spread = draw.uniform(0.1, 0.9, cell.shape)
            cell.assign(cell.detach() * 0.5 + hy.asarray(spread.astype(np.float32)))
    return module


def given(case: Case) -> list[Any]:
    """The inputs as tensors; gradients are asked for by those that can have them.

    A layer that changes its input in place can have no leaf.
    """
    in_place = getattr(case.make(), "inplace", False)
    leaves, structure = flatten(case.inputs)
    tensors = []
    for leaf in leaves:
        tensor = hy.asarray(np.array(leaf))
        tensor.requires_grad = tensor.dtype.is_floating and not in_place
        tensors.append(tensor)
    return list(unflatten(structure, tensors))


@every_case
def test_it_computes_what_it_means(case: Case) -> None:
    module = made(case)
    state = {name: t.numpy().astype(np.float64) for name, t in module.state_dict().items()}
    arrays = [
        tuple(a.astype(np.float64) for a in x)
        if isinstance(x, tuple)
        else (x if x.dtype.kind == "i" else x.astype(np.float64))
        for x in case.inputs
    ]
    wanted, _ = flatten(case.means(state, *arrays))
    found, _ = flatten(module(*given(case)))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a.numpy(), b, rtol=2e-4, atol=2e-5)


@every_case
def test_its_state_is_called_and_shaped_as_by_pytorch(case: Case) -> None:
    found = {name: tensor.shape for name, tensor in case.make().state_dict().items()}
    assert found == case.parameters
    assert list(found) == list(case.parameters)


@every_case
def test_its_repr(case: Case) -> None:
    text = repr(case.make())
    assert text.startswith(f"{case.name}(")
    assert case.text in (None, text)


@pytest.mark.parametrize("training", [True, False])
@every_case
def test_hybridized_it_has_the_same_bits(case: Case, training: bool) -> None:
    eager = made(case).train(training)
    hybridized = copy.deepcopy(eager).hybridize()
    outcomes = []
    for module in (eager, hybridized):
        hy.random.seed(2)
        seen: list[hy.Tensor] = []
        for _ in range(4):  # layers that plan a loop of their own have a plan in the end
            leaves, structure = flatten(given(case))
            module.zero_grad()
            # Not the leaves themselves: some layers write to what they are given.
            inputs = unflatten(structure, [x * 1 if x.requires_grad else x for x in leaves])
            results, _ = flatten(module(*inputs))
            seen += results
            losses = [hy.sum(y * y) for y in results if y.requires_grad]
            if losses:
                sum(losses).backward()
            cells = [cell for cell in (*leaves, *module.parameters()) if cell.requires_grad]
            seen += [cell.grad for cell in cells if cell.grad is not None]
            seen += list(module.state_dict().values())
        outcomes.append(seen)
    assert len(outcomes[0]) == len(outcomes[1]) > 0
    assert all(map(same, *outcomes))
    assert len(hybridized.plans) == 1


@every_case
def test_it_is_copied_and_pickled(case: Case) -> None:
    module = made(case)
    twins = [copy.deepcopy(module)]
    if "distance_function" not in vars(module):  # a lambda is not pickled by Python
        twins.append(pickle.loads(pickle.dumps(module)))
    hy.random.seed(3)
    wanted, _ = flatten(module(*given(case)))
    for twin in twins:
        hy.random.seed(3)
        assert all(map(same, wanted, flatten(twin(*given(case)))[0]))
