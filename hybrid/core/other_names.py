"""Names of NumPy, PyTorch and others that are spelled otherwise here, and what to write for them.

Attributes that are missing raise AttributeError; where the name is one that people know from
elsewhere the message says the line to write, else Python says what is spelled alike.
"""

from __future__ import annotations

import sys
from typing import Any

HERE = "leave it out: tensors are in the memory of the CPU"
_SAVED = 'hy.save(model.state_dict(), "model.safetensors")'
_LOADED = 'model.load_state_dict("model.safetensors")'
_MADE = "leave it out: layers are made with their initial values"
_SEQUENCE = "nn.Sequential(nn.Linear(4, 8), nn.ReLU())"


def _all(line: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, line)


# By the object that lacks the name: what to write, with x, a and b for tensors.
PACKAGE = {
    **_all("hy.asarray(values)", "tensor", "as_tensor", "from_numpy", "array", "constant"),
    **_all("hy.asarray(values)", "scalar_tensor", "ascontiguousarray"),
    "Variable": "x = hy.asarray(values); x.requires_grad = True",
    **_all("hy.concat([a, b], axis=0)", "cat", "concatenate", "vstack"),
    "hstack": "hy.concat([a, b], axis=1)",
    "dstack": "hy.concat([a, b], axis=2)",
    "manual_seed": "hy.random.seed(0)",
    "rand": "hy.random.uniform(size=(2, 3))",
    "randn": "hy.random.normal(size=(2, 3))",
    "rand_like": "hy.random.uniform(size=x.shape)",
    "randn_like": "hy.random.normal(size=x.shape)",
    "randint": "hy.random.integers(0, 10, size=(2, 3))",
    "randperm": "hy.random.permutation(10)",
    "unsqueeze": "hy.expand_dims(x, axis=0)",
    "permute": "hy.permute_dims(x, (1, 0))",
    "t": "hy.matrix_transpose(x)",
    **_all("a @ b", "mm", "bmm", "mv", "dot", "inner"),
    "addmm": "x + a @ b",
    "baddbmm": "x + a @ b",
    "mul": "a * b",
    **_all("a / b", "div", "true_divide"),
    "sub": "a - b",
    "neg": "-x",
    "mod": "a % b",
    "invert": "~x",
    "exp2": "2.0 ** x",
    "lerp": "a + 0.5 * (b - a)",
    **_all("hy.abs(x)", "absolute", "fabs"),
    "clamp": "hy.clip(x, 0, 1)",
    "amax": "hy.max(x, axis=0)",
    "amin": "hy.min(x, axis=0)",
    "masked_select": "x[x > 0]",
    "unique": "hy.unique_values(x)",
    **_all("with hy.no_grad(): ...", "inference_mode", "set_grad_enabled"),
    **_all("hy.grad(f)(x)", "autograd", "GradientTape"),
    **_all(HERE, "device", "cuda"),
    **_all("hy.hybridize(f)", "compile", "jit", "function"),
    "is_tensor": "isinstance(x, hy.Tensor)",
    "float": "hy.float32",
    "double": "hy.float64",
    "half": "hy.float16",
    "long": "hy.int64",
    "int": "hy.int32",
    "get_default_dtype": "hy.float32",
    **_all("x.size", "numel", "size"),
    "rollaxis": "hy.moveaxis(x, 0, 1)",
    "array_split": "hy.split(x, 2)",
    "fliplr": "hy.flip(x, axis=1)",
    "flipud": "hy.flip(x, axis=0)",
    **_all("hy.linalg.diagonal(x)", "diag", "diagonal"),
    "identity": "hy.eye(3)",
    "cross": "hy.linalg.cross(a, b)",
    "array_equal": "hy.all(a == b)",
    **_all("hy.all(hy.abs(a - b) <= 1e-8 + 1e-5 * hy.abs(b))", "allclose", "isclose"),
    "arcsin": "hy.asin(x)",
    "arccos": "hy.acos(x)",
    "arctan": "hy.atan(x)",
    "arctan2": "hy.atan2(a, b)",
    "arcsinh": "hy.asinh(x)",
    "arccosh": "hy.acosh(x)",
    "arctanh": "hy.atanh(x)",
    "rint": "hy.round(x)",
    "fix": "hy.trunc(x)",
    "ravel": "hy.reshape(x, (-1,))",
    **_all("x.clone()", "copy", "clone"),
    "detach": "x.detach()",
    "item": "x.item()",
    "average": "hy.mean(x, axis=0)",
    "reduce_sum": "hy.sum(x, axis=0)",
    "reduce_mean": "hy.mean(x, axis=0)",
    "cross_entropy": "hy.nn.functional.cross_entropy(scores, labels)",
    "lr_scheduler": "hy.optim.lr_scheduler",
    "DataLoader": "hy.data.DataLoader(dataset)",
    "Module": "hy.nn.Module",
}
NN = {
    "Dense": "nn.Linear(4, 8)",
    "LazyLinear": "nn.Linear(4, 8)",
    "Conv2D": "nn.Conv2d(3, 8, 3)",
    "BatchNorm": "nn.BatchNorm2d(8)",
    "Activation": "nn.ReLU()",
    "MaxPool2D": "nn.MaxPool2d(2)",
    "GlobalAvgPool2D": "nn.AdaptiveAvgPool2d(1)",
    **_all("nn.Module", "Block", "HybridBlock", "Cell"),
    **_all(_SEQUENCE, "HybridSequential", "SequentialCell"),
    "CellList": "nn.ModuleList([nn.Linear(4, 8)])",
    "L2Loss": "nn.MSELoss()",
    "SoftmaxCrossEntropyLoss": "nn.CrossEntropyLoss()",
    "DataParallel": "hy.distributed.data_parallel(model, optimizer)",
    "Buffer": "self.register_buffer(name, tensor)",
}
FUNCTIONAL = {
    **_all("F.linear(x, w)", "dense", "fully_connected"),
    "convolution": "F.conv2d(x, w)",
    **_all("F.cross_entropy(scores, labels)", "softmax_cross_entropy"),
    **_all(
        "F.cross_entropy(scores, labels)",
        "softmax_cross_entropy_with_logits",
        "sparse_softmax_cross_entropy_with_logits",
    ),
    **_all(
        "F.binary_cross_entropy_with_logits(scores, targets)",
        "bce_with_logits",
        "sigmoid_binary_cross_entropy",
        "sigmoid_cross_entropy_with_logits",
    ),
    "bce": "F.binary_cross_entropy(probabilities, targets)",
    **_all("F.mse_loss(a, b)", "mse", "l2_loss"),
    "nll": "F.nll_loss(scores, labels)",
    **_all("F.silu(x)", "swish"),
    "lrn": "F.local_response_norm(x, 2)",
    "l2_normalize": "F.normalize(x)",
    "log_sigmoid": "F.logsigmoid(x)",
    "hard_sigmoid": "F.hardsigmoid(x)",
    "concat": "hy.concat([a, b], axis=0)",
    "clip": "hy.clip(x, 0, 1)",
}
RANDOM = {
    **_all("hy.random.uniform(size=(2, 3))", "rand", "random", "random_sample"),
    **_all("hy.random.normal(size=(2, 3))", "randn", "standard_normal"),
    "randint": "hy.random.integers(0, 10, size=(2, 3))",
    "randperm": "hy.random.permutation(10)",
    **_all("hy.random.seed(0)", "manual_seed", "set_seed"),
    **_all("hy.random.Generator(0)", "default_rng", "PRNGKey", "RandomState", "key"),
}
OPTIM = {"Momentum": "hy.optim.SGD(parameters, lr=0.1, momentum=0.9)"}
TENSOR = {
    **_all(HERE, "cuda", "pin_memory", "share_memory_", "as_in_context", "is_cuda"),
    "retain_grad": "hy.grad(f)(x)",
    "unsqueeze_": "x = x.unsqueeze(0)",
    "unique": "hy.unique_values(x)",
    "copy": "x.clone()",
    "inverse": "hy.linalg.inv(x)",
    "det": "hy.linalg.det(x)",
    "diag": "hy.linalg.diagonal(x)",
    "trace": "hy.linalg.trace(x)",
    "asnumpy": "x.numpy()",
    "attach_grad": "x.requires_grad = True",
    "new_tensor": "hy.asarray(values, dtype=x.dtype)",
}
MODULE = {
    **_all(HERE, "cuda", "cpu", "share_memory"),
    **_all(_MADE, "initialize", "to_empty"),
    "collect_params": "model.parameters()",
    **_all("list(model.parameters())", "weights", "trainable_weights", "trainable_params"),
    "compile": "model.hybridize()",
    "fit": "hy.train.Model(model, loss, optimizer).train(10, loader)",
    "predict": "hy.train.Model(model, loss, optimizer).predict(x)",
    "summary": "hy.summary(model, x)",
    **_all(_SAVED, "save", "save_parameters"),
    **_all(_LOADED, "load", "load_parameters"),
    "export": 'hy.export({"predict": (model, x)}, "model.hyb")',
}


def missing(owner: str, name: str, table: dict[str, str], holder: object) -> AttributeError:
    """The error of a ``holder``, called ``owner``, that has no attribute ``name``."""
    what = f"{owner} has no attribute {name!r}"
    if (line := table.get(name)) is not None:
        what = f"{what}\nFix: {line if line.startswith('leave it out') else f'write `{line}`'}."
        return AttributeError(what)
    return AttributeError(what, name=name, obj=holder)


def missing_member(module: str, name: str, table: dict[str, str]) -> AttributeError:
    """The error of a ``module`` that has no ``name``."""
    return missing(f"module {module!r}", name, table, sys.modules[module])


class Elsewhere:
    """An attribute that objects of a class have elsewhere: to ask for it raises, with the fix."""

    def __init__(self, table: dict[str, str]) -> None:
        self.table = table

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        holder = owner if instance is None else instance
        raise missing(f"{owner.__name__!r} object", self.name, self.table, holder)


def add(owner: type, table: dict[str, str]) -> None:
    """Let objects of ``owner`` say what to write for the names of ``table``."""
    for name in table:
        found = Elsewhere(table)
        found.__set_name__(owner, name)
        setattr(owner, name, found)
