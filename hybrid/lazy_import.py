"""Imports that wait until something is asked for, and the names under which modules were known.

Tensors and ops come with ``import hybrid``; gradients, capturing, layers, optimizers and data,
which are most of the package, do not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from glob import glob
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from hybrid.core.imports import above, imported
from hybrid.core.package import FOLDER

MODULES = ("compress", "data", "linalg", "nn", "optim", "plots", "train")
OPTIONAL = ("onnx",)  # those that need an optional package: `from hybrid import *` leaves them out
_NAMES = {  # public names, by the modules that they come from
    "hybrid.autodiff": (
        "check_grads",
        "enable_grad",
        "grad",
        "jvp",
        "no_grad",
        "stop_gradient",
        "value_and_grad",
        "vjp",
    ),
    "hybrid.calls.control_functions": ("cond", "py_call", "scan", "while_loop"),
    "hybrid.calls.dynamic_axes": ("Dim",),
    "hybrid.calls.hybridization": ("hybridize",),
    "hybrid.autodiff.debug": ("debug",),
    "hybrid.eager.profile": ("profile",),
    "hybrid.eager.progress": ("progress",),
    "hybrid.eager.streams": ("stream", "wait_all"),
    "hybrid.nn": ("summary",),
    "hybrid.programs": ("export", "load_exported"),
    "hybrid.trace.gradients.checkpoint": ("checkpoint",),
    "hybrid.transforms": ("custom_vjp", "hessian", "hvp", "jacobian", "vmap"),
    "hybrid.weights": ("load", "save"),
}
MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}


def module(name: str) -> ModuleType:
    """One of ``MODULES`` or ``OPTIONAL``."""
    return imported(f"hybrid.{name}")


def member(name: str) -> Any:
    """One of the names in ``MODULE_OF``."""
    return getattr(imported(MODULE_OF[name]), name)


# Modules that programs and pickles of version 0.1 name, and where what they had is now.
FORMER = {
    "hybrid.bench.digits": "hybrid.data.digits",
    "hybrid.data.split": "hybrid.data.sampler",
    "hybrid.data.table": "hybrid.data.datasets.csv_table",
    "hybrid.in_place": "hybrid.eager.inplace_launch",
    "hybrid.models.recurrent": "hybrid.models.sequence_classifier",
    "hybrid.nn.basic": "hybrid.nn.layers.linear",
    "hybrid.nn.counting": "hybrid.nn.op_counts",
    "hybrid.nn.distance": "hybrid.nn.layers.linear",
    "hybrid.nn.dropping": "hybrid.nn.functions.dropout_kinds",
    "hybrid.nn.lookup": "hybrid.nn.functions.embedding_rows",
    "hybrid.nn.recurrent": "hybrid.nn.layers.recurrence",
    "hybrid.nn.state": "hybrid.nn.modules.state_dict",
    "hybrid.ops.attending": "hybrid.ops.layers.fused_attention",
    "hybrid.ops.attending_dropped": "hybrid.ops.layers.attention_dropout",
    "hybrid.ops.bits": "hybrid.ops.elementwise.comparison",
    "hybrid.ops.checkpointed": "hybrid.ops.flow.call_nodes",
    "hybrid.ops.checks": "hybrid.ops.support.operand_checks",
    "hybrid.ops.convolution_blocked": "hybrid.ops.spatial.convolution_blocks",
    "hybrid.ops.convolution_prepared": "hybrid.ops.spatial.convolution_weights",
    "hybrid.ops.custom": "hybrid.ops.flow.call_nodes",
    "hybrid.ops.distances": "hybrid.ops.matrix.norms",
    "hybrid.ops.folding": "hybrid.ops.shapes.image_windows",
    "hybrid.ops.joining": "hybrid.ops.shapes.concatenation",
    "hybrid.ops.linalg": "hybrid.ops.matrix.products",
    "hybrid.ops.logical": "hybrid.ops.elementwise.bit_logic",
    "hybrid.ops.matmul_integer": "hybrid.ops.matrix.matmul_variants",
    "hybrid.ops.matmul_prepared": "hybrid.ops.matrix.matmul_weights",
    "hybrid.ops.matmul_sum": "hybrid.ops.matrix.matmul_variants",
    "hybrid.ops.optimizer": "hybrid.ops.state.optimizer_steps",
    "hybrid.ops.optimizer_adaptive": "hybrid.ops.state.optimizer_rmsprop",
    "hybrid.ops.random": "hybrid.ops.state.random_numbers",
    "hybrid.ops.remembered": "hybrid.ops.support.call_cache",
    "hybrid.ops.scattering": "hybrid.ops.index.scatter",
    "hybrid.ops.solving": "hybrid.ops.matrix.linear_systems",
    "hybrid.ops.trigonometric": "hybrid.ops.elementwise.trigonometry",
    "hybrid.optim.adaptive": "hybrid.optim.rmsprop",
    "hybrid.optim.clip": "hybrid.nn.clip",
    "hybrid.optim.lr_scheduler.composed": "hybrid.optim.lr_scheduler.composition",
    "hybrid.tensor": "hybrid.eager.tensor",
    "hybrid.train.schedule": "hybrid.train.actions",
    "hybrid.train.watching": "hybrid.train.actions",
    "hybrid.tree": "hybrid.core.tree",
    "hybrid.types": "hybrid.core.types",
}

# Of whose modules functions and classes are pickled: they are in folders now.
_IN_FOLDERS = frozenset({"hybrid.data", "hybrid.nn", "hybrid.ops"})


def _is_now(name: str) -> str:
    """The name of the module that was called ``name``; empty if there was none."""
    package, _, last = name.rpartition(".")
    if package in _IN_FOLDERS:
        part = package.removeprefix("hybrid.")
        for path in glob(os.path.join(FOLDER, part, "*", f"{last}.py")):
            return f"{package}.{os.path.basename(os.path.dirname(path))}.{last}"
    return FORMER.get(name, "")


class _FormerModules:
    """Finds and loads modules under the names that they had (its bases would be slow to import)."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if _is_now(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = imported(_is_now(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already; its spec stays the one under which it did."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state


_ABOVE = {  # what lower folders call of those above them, by the modules that have it
    "hybrid.autodiff.tape": ("backward",),
    "hybrid.eager.frameworks.data_view": ("view_of", "write_data"),
    "hybrid.eager.fused_calls": ("learned", "local_plan", "opened", "watched"),
    "hybrid.eager.frameworks.numpy_protocols": ("array_function", "array_ufunc"),
    "hybrid.eager.open_launch": ("run_open",),
    "hybrid.memory.bfloat16": ("exported", "imported"),
    "hybrid.explain.page": ("explanation_fragment", "explanation_page"),
    "hybrid.explain.terminal": ("explanation_parts", "show_explanation"),
    "hybrid.explain.plain_text": ("explanation_text",),
    "hybrid.ir.printer": ("names_of", "print_graph", "print_lines"),
    "hybrid.ir.show": ("show_graph",),
    "hybrid.ir.show_page": ("graph_fragment",),
    "hybrid.nn.module_html": ("module_html",),
    "hybrid.eager.tensor_html": ("tensor_html",),
    "hybrid.plan.describe": ("schedule_text",),
    "hybrid.trace.regions.run_errors": ("let_raise",),
    "hybrid.verification.shadow_calls": ("Verified",),
    "hybrid.trace.capture.history_flags": ("presence", "presence_beyond", "surely_outside"),
}


def register() -> None:
    """Let lower folders call what is above them, and old names find what they stood for."""
    above.provide(_ABOVE)
    sys.meta_path.append(_FormerModules())
