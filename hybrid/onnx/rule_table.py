"""The table of rules: how each op of hybrid is written in ONNX, or why it is not.

::

    @writes("square")
    def square(g, x):
        return g("Mul", x, x)

A rule gets the ``GraphWriter`` of the graph that the node is in, a ``Wire`` for each operand, and
the attributes by keyword; it gives a Wire for the result, or a tuple of them.  With ``node=True``
it gets the node, too: its types and regions.  Rules are written from captured graphs, before any
pass, so ops that passes alone make need none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybrid.core.dataclass import dataclass

_PASSES = "passes alone make it, and graphs are written as they are captured"
_RANDOM = "the numbers would be others: each runtime of ONNX draws its own"
_STEPS = "it changes parameters, and an ONNX model has no state"
_LINALG = "ONNX has no op for it"
_BITS = "no op of ONNX shows the bits of a float"

REASONS: dict[str, str] = {  # ops that are not written, and why
    **dict.fromkeys(
        ["map", "matmul_map", "matmul_prepared_map", "conv_map", "conv_transpose_map",
         "conv_prepared_map", "conv_blocked_map", "map_sum", "map_prod", "map_mean", "map_max",
         "map_min", "map_any", "map_all", "matmul_prepare", "matmul_prepared",
         "matmul_integer_map", "matmul_integer_prepared_map", "matmul_integer_prepare",
         "matmul_integer_prepared", "conv_prepare", "conv_prepared", "conv_blocked_prepare",
         "conv_blocked", "conv_integer_prepare", "conv_integer_prepared",
         "conv_integer_map", "conv_integer_prepared_map"],
        _PASSES,
    ),
    **dict.fromkeys(
        ["random_uniform", "random_normal", "random_bits", "random_gamma", "random_beta",
         "random_poisson", "random_truncated_normal", "drop", "drop_again", "attention_dropped",
         "attention_dropped_pull"],
        _RANDOM,
    ),
    **dict.fromkeys(
        ["sgd", "sgd_momentum", "sgd_dampened", "adam", "amsgrad", "adamax", "radam",
         "nadam_product", "nadam", "rmsprop", "rmsprop_momentum", "rmsprop_centered",
         "rmsprop_centered_momentum", "adagrad", "adadelta", "lion"],
        _STEPS,
    ),
    **dict.fromkeys(
        ["cholesky", "qr", "qr_complete", "eigh", "eigvalsh", "svd", "svd_full", "svdvals",
         "solve", "solve_triangular", "inv", "pinv", "cofactors", "slogdet"],
        _LINALG,
    ),
    "nextafter": _BITS,
    "c_function": "it is for programs: a function of the C library",
    **dict.fromkeys(["say", "stop"], "a model of ONNX computes, and does nothing else"),
    **dict.fromkeys(
        ["all_reduce", "reduce_to", "reduce_scatter", "all_gather", "all_to_all", "broadcast",
         "barrier", "send", "recv", "gather_parameters", "parts_total", "shard_sums",
         "laid_out", "pipeline_edge"],
        "it reaches other processes, and a model of ONNX runs in one",
    ),
    "py_call": "it calls Python while it runs, and there is none where ONNX models run",
}  # fmt: skip
INSTEAD: dict[str, str] = {  # by reason: what to do about it
    _RANDOM: "draw outside, and pass the numbers as an argument; export what evaluates",
    _STEPS: "export what predicts; hybrid.export writes programs that train",
    _LINALG: "compute it outside, and pass the result as an argument",
    _BITS: "compute it outside, and pass the result as an argument",
    REASONS["py_call"]: "do it outside, with what the function returns",
}


@dataclass(frozen=True)
class WritingRule:
    """How an op is written."""

    write: Callable[..., Any]
    takes_node: bool


RULES: dict[str, WritingRule] = {}


def writes(*names: str, node: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let the function that is decorated write the ops ``names``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in RULES and name not in REASONS, name
            RULES[name] = WritingRule(function, node)
        return function

    return register
