"""The public surface: every promised name is there, and nothing private stands beside it."""

import types

import pytest

import hybrid as hy
from hybrid import data, nn, optim

TOP = [
    "Tensor",
    "HybridError",
    "hybridize",
    "no_convert",
    "checkpoint",
    "cond",
    "while_loop",
    "scan",
    "py_call",
    "num_threads",
    "set_num_threads",
    "asarray",
    "from_dlpack",
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "check_grads",
    "checkpoint",
    "stop_gradient",
    "no_grad",
    "copysign",
    "nextafter",
    "signbit",
    "argsort",
    "searchsorted",
    "sort",
    "topk",
    "finfo",
    "iinfo",
    "enable_grad",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "e",
    "inf",
    "nan",
    "pi",
    "newaxis",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "concat",
    "cos",
    "cosh",
    "count_nonzero",
    "diff",
    "divide",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flip",
    "floor",
    "floor_divide",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linspace",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "negative",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "positive",
    "pow",
    "prod",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "trunc",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
    "cdist",
    "chunk",
    "einsum",
    "erf",
    "flatten",
    "gelu",
    "index_add",
    "log_softmax",
    "logsumexp",
    "one_hot",
    "outer",
    "pad",
    "relu",
    "repeat_interleave",
    "rsqrt",
    "scatter_add",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "split",
    "swapaxes",
    "unflatten",
    "vector_norm",
]
MODULES = ["data", "nn", "optim", "random"]

# Imported parts of the package are attributes of it, too; they are not promised.
PARTS = [
    "autodiff",
    "bench",
    "binding",
    "cli",
    "config",
    "control",
    "conversion",
    "convert",
    "eager",
    "errors",
    "explain",
    "families",
    "hybridized",
    "inspection",
    "ir",
    "marks",
    "native",
    "number",
    "ops",
    "passes",
    "plan",
    "planned",
    "record",
    "remains",
    "tensor",
    "trace",
    "tree",
    "types",
    "version",
]

TENSOR = [
    "T",
    "all",
    "any",
    "argmax",
    "argmin",
    "assign",
    "astype",
    "backward",
    "detach",
    "device",
    "dtype",
    "grad",
    "item",
    "mT",
    "max",
    "mean",
    "min",
    "nbytes",
    "ndim",
    "numpy",
    "permute_dims",
    "requires_grad",
    "reshape",
    "shape",
    "size",
    "sum",
    "to_device",
    "tolist",
    "__array__",
    "__dlpack__",
    "__dlpack_device__",
    "__getitem__",
    "__setitem__",
    "__matmul__",
    "__iadd__",
    "__len__",
]

SUBMODULES = {
    nn: [
        "Module",
        "Parameter",
        "Sequential",
        "ModuleList",
        "ModuleDict",
        "Linear",
        "Dropout",
        "Flatten",
        "Identity",
        "ReLU",
        "GELU",
        "SiLU",
        "Sigmoid",
        "Tanh",
        "Softmax",
        "LogSoftmax",
        "CrossEntropyLoss",
        "MSELoss",
        "functional",
        "init",
    ],
    optim: ["Optimizer", "SGD", "Adam", "AdamW"],
    data: ["Dataset", "TensorDataset", "DataLoader"],
    hy.random: ["seed", "normal", "uniform", "integers", "bernoulli", "permutation", "Generator"],
}


@pytest.mark.parametrize("name", [*TOP, *MODULES])
def test_a_promised_name_is_there(name: str) -> None:
    assert hasattr(hy, name)


def test_nothing_else_is_public() -> None:
    public = {name for name in vars(hy) if not name.startswith("_")}
    assert public - set(TOP) - set(MODULES) - set(PARTS) == set()


def test_parts_are_modules() -> None:
    """No function or class of the surface is hidden by a part of the same name, or the reverse."""
    for name in PARTS:
        assert isinstance(getattr(hy, name, types), types.ModuleType), name
    for name in TOP:
        assert not isinstance(getattr(hy, name, None), types.ModuleType), name


@pytest.mark.parametrize("name", TENSOR)
def test_a_tensor_has(name: str) -> None:
    assert hasattr(hy.Tensor, name)


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in SUBMODULES.items() for name in names]
)
def test_submodules(module: types.ModuleType, name: str) -> None:
    assert hasattr(module, name)


@pytest.mark.parametrize("name", ["graph", "explain", "plans", "clear"])
def test_what_is_hybridized_can_be_looked_at(name: str) -> None:
    assert hasattr(hy.hybridize(lambda x: x), name)
    assert hasattr(nn.Linear(1, 1).hybridize(), name)


def test_functions_have_documentation() -> None:
    undocumented = [n for n in TOP if callable(v := getattr(hy, n, None)) and not v.__doc__]
    assert undocumented == []


def test_the_version() -> None:
    assert hy.__version__.count(".") == 2
