"""hybrid: write models imperatively, run them compiled on a CPU.

The public names and nothing else; the tutorials are the tour.  Tensors and ops are there at once;
what is around them is imported when it is first asked for.
"""

import typing as _typing
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from hybrid import lazy_import as _lazy
from hybrid import random as random
from hybrid.config import cache_plans as cache_plans
from hybrid.core import other_names as _other_names
from hybrid.core.own_names import no_convert as no_convert
from hybrid.core.package import __version__ as __version__
from hybrid.core.package import include_dir as include_dir
from hybrid.core.package import lib_dir as lib_dir
from hybrid.core.types import bfloat16 as bfloat16
from hybrid.core.types import bool_ as bool  # noqa: F401  exported under the standard's name
from hybrid.core.types import float16 as float16
from hybrid.core.types import float32 as float32
from hybrid.core.types import float64 as float64
from hybrid.core.types import int8 as int8
from hybrid.core.types import int16 as int16
from hybrid.core.types import int32 as int32
from hybrid.core.types import int64 as int64
from hybrid.core.types import uint8 as uint8
from hybrid.core.types import uint16 as uint16
from hybrid.core.types import uint32 as uint32
from hybrid.core.types import uint64 as uint64
from hybrid.eager.frameworks import interop as _interop
from hybrid.eager.frameworks import torch_methods as _torch_methods  # noqa: F401  adds methods to Tensor
from hybrid.eager.frameworks.inspection import ARRAY_API_VERSION as __array_api_version__  # noqa: F401
from hybrid.eager.frameworks.inspection import array_namespace_info as __array_namespace_info__  # noqa: F401
from hybrid.eager.frameworks.inspection import finfo as finfo
from hybrid.eager.frameworks.inspection import iinfo as iinfo
from hybrid.eager.frameworks.interop import asarray as asarray
from hybrid.eager.frameworks.interop import from_dlpack as from_dlpack
from hybrid.eager.tensor import Tensor as Tensor
from hybrid.errors import HybridError as HybridError
from hybrid.memory.native import num_threads as num_threads
from hybrid.memory.native import set_num_threads as set_num_threads
from hybrid.ops import abs as abs
from hybrid.ops import acos as acos
from hybrid.ops import acosh as acosh
from hybrid.ops import adaptive_avg_pool1d as adaptive_avg_pool1d
from hybrid.ops import adaptive_avg_pool2d as adaptive_avg_pool2d
from hybrid.ops import adaptive_avg_pool3d as adaptive_avg_pool3d
from hybrid.ops import adaptive_max_pool1d as adaptive_max_pool1d
from hybrid.ops import adaptive_max_pool2d as adaptive_max_pool2d
from hybrid.ops import adaptive_max_pool3d as adaptive_max_pool3d
from hybrid.ops import add as add
from hybrid.ops import all as all
from hybrid.ops import any as any
from hybrid.ops import arange as arange
from hybrid.ops import argmax as argmax
from hybrid.ops import argmin as argmin
from hybrid.ops import argsort as argsort
from hybrid.ops import argwhere as argwhere
from hybrid.ops import asin as asin
from hybrid.ops import asinh as asinh
from hybrid.ops import astype as astype
from hybrid.ops import atan as atan
from hybrid.ops import atan2 as atan2
from hybrid.ops import atanh as atanh
from hybrid.ops import avg_pool1d as avg_pool1d
from hybrid.ops import avg_pool2d as avg_pool2d
from hybrid.ops import avg_pool3d as avg_pool3d
from hybrid.ops import batch_norm as batch_norm
from hybrid.ops import bitwise_and as bitwise_and
from hybrid.ops import bitwise_invert as bitwise_invert
from hybrid.ops import bitwise_left_shift as bitwise_left_shift
from hybrid.ops import bitwise_or as bitwise_or
from hybrid.ops import bitwise_right_shift as bitwise_right_shift
from hybrid.ops import bitwise_xor as bitwise_xor
from hybrid.ops import broadcast_arrays as broadcast_arrays
from hybrid.ops import broadcast_to as broadcast_to
from hybrid.ops import can_cast as can_cast
from hybrid.ops import cdist as cdist
from hybrid.ops import ceil as ceil
from hybrid.ops import celu as celu
from hybrid.ops import chunk as chunk
from hybrid.ops import clip as clip
from hybrid.ops import concat as concat
from hybrid.ops import conj as conj
from hybrid.ops import conv1d as conv1d
from hybrid.ops import conv2d as conv2d
from hybrid.ops import conv3d as conv3d
from hybrid.ops import conv_transpose1d as conv_transpose1d
from hybrid.ops import conv_transpose2d as conv_transpose2d
from hybrid.ops import conv_transpose3d as conv_transpose3d
from hybrid.ops import copysign as copysign
from hybrid.ops import cos as cos
from hybrid.ops import cosh as cosh
from hybrid.ops import cosine_similarity as cosine_similarity
from hybrid.ops import count_nonzero as count_nonzero
from hybrid.ops import cumprod as cumprod
from hybrid.ops import cumsum as cumsum
from hybrid.ops import cumulative_prod as cumulative_prod
from hybrid.ops import cumulative_sum as cumulative_sum
from hybrid.ops import diff as diff
from hybrid.ops import divide as divide
from hybrid.ops import einsum as einsum
from hybrid.ops import empty as empty
from hybrid.ops import empty_like as empty_like
from hybrid.ops import equal as equal
from hybrid.ops import erf as erf
from hybrid.ops import exp as exp
from hybrid.ops import expand_dims as expand_dims
from hybrid.ops import expm1 as expm1
from hybrid.ops import eye as eye
from hybrid.ops import flatten as flatten
from hybrid.ops import flip as flip
from hybrid.ops import floor as floor
from hybrid.ops import floor_divide as floor_divide
from hybrid.ops import fold as fold
from hybrid.ops import full as full
from hybrid.ops import full_like as full_like
from hybrid.ops import gather as gather
from hybrid.ops import gelu as gelu
from hybrid.ops import greater as greater
from hybrid.ops import greater_equal as greater_equal
from hybrid.ops import group_norm as group_norm
from hybrid.ops import hardshrink as hardshrink
from hybrid.ops import hypot as hypot
from hybrid.ops import index_add as index_add
from hybrid.ops import index_select as index_select
from hybrid.ops import instance_norm as instance_norm
from hybrid.ops import interpolate as interpolate
from hybrid.ops import isdtype as isdtype
from hybrid.ops import isfinite as isfinite
from hybrid.ops import isinf as isinf
from hybrid.ops import isnan as isnan
from hybrid.ops import layer_norm as layer_norm
from hybrid.ops import less as less
from hybrid.ops import less_equal as less_equal
from hybrid.ops import linspace as linspace
from hybrid.ops import log as log
from hybrid.ops import log1p as log1p
from hybrid.ops import log2 as log2
from hybrid.ops import log10 as log10
from hybrid.ops import log_softmax as log_softmax
from hybrid.ops import logaddexp as logaddexp
from hybrid.ops import logical_and as logical_and
from hybrid.ops import logical_not as logical_not
from hybrid.ops import logical_or as logical_or
from hybrid.ops import logical_xor as logical_xor
from hybrid.ops import logsumexp as logsumexp
from hybrid.ops import masked_fill as masked_fill
from hybrid.ops import matmul as matmul
from hybrid.ops import matrix_transpose as matrix_transpose
from hybrid.ops import max as max
from hybrid.ops import max_pool1d as max_pool1d
from hybrid.ops import max_pool2d as max_pool2d
from hybrid.ops import max_pool3d as max_pool3d
from hybrid.ops import maximum as maximum
from hybrid.ops import mean as mean
from hybrid.ops import meshgrid as meshgrid
from hybrid.ops import min as min
from hybrid.ops import minimum as minimum
from hybrid.ops import moveaxis as moveaxis
from hybrid.ops import multiply as multiply
from hybrid.ops import negative as negative
from hybrid.ops import nextafter as nextafter
from hybrid.ops import nonzero as nonzero
from hybrid.ops import norm as norm
from hybrid.ops import not_equal as not_equal
from hybrid.ops import one_hot as one_hot
from hybrid.ops import ones as ones
from hybrid.ops import ones_like as ones_like
from hybrid.ops import outer as outer
from hybrid.ops import pad as pad
from hybrid.ops import pairwise_distance as pairwise_distance
from hybrid.ops import permute_dims as permute_dims
from hybrid.ops import pixel_shuffle as pixel_shuffle
from hybrid.ops import pixel_unshuffle as pixel_unshuffle
from hybrid.ops import positive as positive
from hybrid.ops import pow as pow
from hybrid.ops import prelu as prelu
from hybrid.ops import prod as prod
from hybrid.ops import real as real
from hybrid.ops import reciprocal as reciprocal
from hybrid.ops import relu as relu
from hybrid.ops import remainder as remainder
from hybrid.ops import repeat as repeat
from hybrid.ops import repeat_interleave as repeat_interleave
from hybrid.ops import reshape as reshape
from hybrid.ops import result_type as result_type
from hybrid.ops import rms_norm as rms_norm
from hybrid.ops import roll as roll
from hybrid.ops import round as round
from hybrid.ops import rsqrt as rsqrt
from hybrid.ops import scatter as scatter
from hybrid.ops import scatter_add as scatter_add
from hybrid.ops import searchsorted as searchsorted
from hybrid.ops import selu as selu
from hybrid.ops import sigmoid as sigmoid
from hybrid.ops import sign as sign
from hybrid.ops import signbit as signbit
from hybrid.ops import silu as silu
from hybrid.ops import sin as sin
from hybrid.ops import sinh as sinh
from hybrid.ops import softmax as softmax
from hybrid.ops import softplus as softplus
from hybrid.ops import sort as sort
from hybrid.ops import split as split
from hybrid.ops import sqrt as sqrt
from hybrid.ops import square as square
from hybrid.ops import squeeze as squeeze
from hybrid.ops import stack as stack
from hybrid.ops import std as std
from hybrid.ops import subtract as subtract
from hybrid.ops import sum as sum
from hybrid.ops import swapaxes as swapaxes
from hybrid.ops import take as take
from hybrid.ops import take_along_axis as take_along_axis
from hybrid.ops import tan as tan
from hybrid.ops import tanh as tanh
from hybrid.ops import tensordot as tensordot
from hybrid.ops import threshold as threshold
from hybrid.ops import tile as tile
from hybrid.ops import topk as topk
from hybrid.ops import transpose as transpose
from hybrid.ops import tril as tril
from hybrid.ops import triu as triu
from hybrid.ops import trunc as trunc
from hybrid.ops import unflatten as unflatten
from hybrid.ops import unfold as unfold
from hybrid.ops import unique_all as unique_all
from hybrid.ops import unique_counts as unique_counts
from hybrid.ops import unique_inverse as unique_inverse
from hybrid.ops import unique_values as unique_values
from hybrid.ops import unstack as unstack
from hybrid.ops import var as var
from hybrid.ops import vecdot as vecdot
from hybrid.ops import vector_norm as vector_norm
from hybrid.ops import where as where
from hybrid.ops import zeros as zeros
from hybrid.ops import zeros_like as zeros_like

if _typing.TYPE_CHECKING:
    from hybrid import compress as compress
    from hybrid import data as data
    from hybrid import linalg as linalg
    from hybrid import nn as nn
    from hybrid import onnx as onnx
    from hybrid import optim as optim
    from hybrid import plots as plots
    from hybrid import train as train
    from hybrid.autodiff import check_grads as check_grads
    from hybrid.autodiff import enable_grad as enable_grad
    from hybrid.autodiff import grad as grad
    from hybrid.autodiff import jvp as jvp
    from hybrid.autodiff import no_grad as no_grad
    from hybrid.autodiff import stop_gradient as stop_gradient
    from hybrid.autodiff import value_and_grad as value_and_grad
    from hybrid.autodiff import vjp as vjp
    from hybrid.calls.control_functions import cond as cond
    from hybrid.calls.control_functions import py_call as py_call
    from hybrid.calls.control_functions import scan as scan
    from hybrid.calls.control_functions import while_loop as while_loop
    from hybrid.calls.dynamic_axes import Dim as Dim
    from hybrid.calls.hybridization import hybridize as hybridize
    from hybrid.eager.profile import profile as profile
    from hybrid.eager.progress import progress as progress
    from hybrid.eager.streams import stream as stream
    from hybrid.eager.streams import wait_all as wait_all
    from hybrid.nn import summary as summary
    from hybrid.programs import export as export
    from hybrid.programs import load_exported as load_exported
    from hybrid.trace.gradients.checkpoint import checkpoint as checkpoint
    from hybrid.transforms import custom_vjp as custom_vjp
    from hybrid.transforms import hessian as hessian
    from hybrid.transforms import hvp as hvp
    from hybrid.transforms import jacobian as jacobian
    from hybrid.transforms import vmap as vmap
    from hybrid.weights import load as load
    from hybrid.weights import save as save

newaxis = None
_interop.register()
_lazy.register()

__all__ = [
    *[name for name in globals() if not name.startswith("_")], *_lazy.MODULE_OF, *_lazy.MODULES
]  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    own = name not in _other_names.PACKAGE
    if own and (name in (*_lazy.MODULES, *_lazy.OPTIONAL) or f"hybrid.{name}" in _lazy.FORMER):
        return _lazy.module(name)
    if name not in _lazy.MODULE_OF:
        raise _other_names.missing_member(__name__, name, _other_names.PACKAGE)
    found = globals()[name] = _lazy.member(name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_lazy.OPTIONAL})
