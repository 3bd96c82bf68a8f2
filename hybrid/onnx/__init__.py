"""Models of ONNX: ``load`` makes a module of one, ``export`` writes one, ``summary`` tells of one.

It needs the package ``onnx``: ``pip install "hybrid[onnx]"``.
"""

from importlib.util import find_spec as _find_spec

from hybrid.errors import MissingPackageError as _MissingPackageError

if _find_spec("onnx") is None:
    raise _MissingPackageError(
        "hybrid.onnx needs the package onnx, which is not installed",
        fix='pip install "hybrid[onnx]"',
    )

from hybrid.onnx.model_export import export
from hybrid.onnx.model_summary import summary
from hybrid.onnx.onnx_module import OnnxModule, load

__all__ = ["OnnxModule", "export", "load", "summary"]
