"""The public surface: every promised name is there, and nothing private stands beside it."""

import base64
import importlib
import json
import pickle
import types
from pathlib import Path

import pytest

import hybrid as hy
from hybrid import data, lazy_import, linalg, nn, optim

TOP = [
    "Tensor",
    "HybridError",
    "hybridize",
    "Dim",
    "no_convert",
    "checkpoint",
    "cache_plans",
    "cond",
    "while_loop",
    "scan",
    "py_call",
    "save",
    "load",
    "summary",
    "export",
    "load_exported",
    "include_dir",
    "lib_dir",
    "debug",
    "profile",
    "progress",
    "num_threads",
    "set_num_threads",
    "stream",
    "wait_all",
    "asarray",
    "from_dlpack",
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "jacobian",
    "hessian",
    "hvp",
    "vmap",
    "custom_vjp",
    "check_grads",
    "stop_gradient",
    "no_grad",
    "conj",
    "real",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "copysign",
    "nextafter",
    "signbit",
    "argsort",
    "argwhere",
    "searchsorted",
    "sort",
    "topk",
    "finfo",
    "iinfo",
    "enable_grad",
    "bool",
    "float16",
    "bfloat16",
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
    "transpose",
    "triu",
    "trunc",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "max_pool1d",
    "avg_pool1d",
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "max_pool2d",
    "avg_pool2d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool2d",
    "max_pool3d",
    "avg_pool3d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool3d",
    "interpolate",
    "fold",
    "unfold",
    "pixel_shuffle",
    "pixel_unshuffle",
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
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "rms_norm",
    "cosine_similarity",
    "pairwise_distance",
    "norm",
    "celu",
    "hardshrink",
    "prelu",
    "selu",
    "threshold",
    "gather",
    "index_select",
    "masked_fill",
    "scatter",
]
MODULES = ["compress", "data", "linalg", "nn", "optim", "plots", "random", "train"]

# Imported parts of the package are attributes of it, too; they are not promised.
PARTS = [
    "autodiff", "bench", "calls", "cli", "config", "convert", "core", "eager", "errors", "explain",
    "ir", "jobs", "lazy_import", "memory", "models", "number", "ops", "passes", "plan", "programs",
    "simulation", "staging", "trace", "transforms", "verification", "weights",
]  # fmt: skip

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
    linalg: [
        "cholesky",
        "cross",
        "det",
        "diagonal",
        "eigh",
        "eigvalsh",
        "inv",
        "matmul",
        "matrix_norm",
        "matrix_power",
        "matrix_rank",
        "matrix_transpose",
        "outer",
        "pinv",
        "qr",
        "slogdet",
        "solve",
        "svd",
        "svdvals",
        "tensordot",
        "trace",
        "vecdot",
        "vector_norm",
    ],
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
        "summary",
        "functional",
        "init",
    ],
    optim: [
        "Optimizer",
        "SGD",
        "Adam",
        "AdamW",
        "RMSprop",
        "Adagrad",
        "LBFGS",
        "Lion",
        "Adadelta",
        "Adamax",
    ],
    data: [
        "BatchSampler",
        "ByteTokenizer",
        "ChainDataset",
        "CharTokenizer",
        "ConcatDataset",
        "CsvDataset",
        "DataLoader",
        "Cast",
        "Dataset",
        "ImageFolder",
        "IterableDataset",
        "Normalize",
        "NpyDataset",
        "RandomSampler",
        "Sampler",
        "SequentialSampler",
        "StackDataset",
        "Subset",
        "SubsetRandomSampler",
        "TensorDataset",
        "TokenBlocks",
        "Tokenizer",
        "Transform",
        "WeightedRandomSampler",
        "WordTokenizer",
        "WorkerInfo",
        "batch_generator",
        "default_collate",
        "default_convert",
        "get_worker_info",
        "image_to_tensor",
        "read_csv",
        "read_npy",
        "random_split",
    ],
    hy.random: [
        "seed",
        "normal",
        "uniform",
        "integers",
        "bernoulli",
        "permutation",
        "Generator",
        "beta",
        "categorical",
        "choice",
        "exponential",
        "gamma",
        "multinomial",
        "poisson",
        "shuffle",
        "split",
        "truncated_normal",
    ],
}


@pytest.mark.parametrize("name", [*TOP, *MODULES])
def test_a_promised_name_is_there(name: str) -> None:
    assert hasattr(hy, name)


FORMER = json.loads(Path(__file__).with_name("former_pickles.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FORMER)
def test_pickles_of_version_0_1_are_read(name: str) -> None:
    """They name modules as these were called then."""
    loaded = pickle.loads(base64.b64decode(FORMER[name]))
    again = pickle.loads(pickle.dumps(loaded))
    assert type(again) is type(loaded)
    if isinstance(loaded, hy.Tensor):
        assert loaded.tolist() == again.tolist() == EXPECTED[name]


EXPECTED = {"tensor": [1.0, 2.0, 3.0], "bfloat16": [1.5, -2.0], "ints": [0, 1, 2, 3]}


def test_former_names_are_the_modules_themselves() -> None:
    assert importlib.import_module("hybrid.types") is importlib.import_module("hybrid.core.types")
    assert importlib.import_module("hybrid.core.types").__spec__.name == "hybrid.core.types"


@pytest.mark.parametrize(("former", "now"), lazy_import.FORMER.items())
def test_every_former_name_is_that_of_a_module(former: str, now: str) -> None:
    """And no module has it now, which would hide the other."""
    assert importlib.import_module(former) is importlib.import_module(now)
    assert importlib.import_module(now).__name__ == now


def test_nothing_else_is_public() -> None:
    public = {name for name in vars(hy) if not name.startswith("_")}
    public -= {"in_place", "tensor", "tree", "types"}  # former names, once they were asked for
    public -= {"distributed", "onnx"}  # which need packages of their own
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


@pytest.mark.parametrize("name", ["graph", "explain", "plans", "clear", "submit"])
def test_what_is_hybridized_can_be_looked_at(name: str) -> None:
    assert hasattr(hy.hybridize(lambda x: x), name)
    assert hasattr(nn.Linear(1, 1).hybridize(), name)


def test_functions_have_documentation() -> None:
    undocumented = [n for n in TOP if callable(v := getattr(hy, n, None)) and not v.__doc__]
    assert undocumented == []


def test_the_version() -> None:
    assert hy.__version__.count(".") == 2
