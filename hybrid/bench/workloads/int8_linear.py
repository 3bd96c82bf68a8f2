"""Linear layers of bytes beside those of float32, by the clock of the processor, on one thread.

Dynamic ones give each row a scale while they run; static ones have one scale for all, from data.
Those of weights alone multiply floats.
Hybridized, the weights are put in order once; eagerly they are read as they lie.
"""

from typing import Any

import numpy as np

import hybrid as hy
from hybrid.bench.bits import require_close, require_same_bits
from hybrid.bench.registry import Case, Target, Way, workload

# Rows, and features in and out; the share of the time of float32 that hybridized bytes may take
# where AVX2 has no instruction for four products.
SIZES = (
    ((1024, 1024, 1024), 1 / 1.25),
    ((128, 384, 1536), 1 / 1.25),
    ((1, 4096, 4096), 1 / 2),
    ((8, 768, 768), 1 / 1.05),
    ((1, 256, 256), 1 / 0.95),
)


LEAST = 1 / 0.95  # of the time of float32, that weights alone may take


@workload("int8_linear", "linear layers of bytes, by each method, beside those of float32")
def int8_linear() -> list[Case]:
    return [layer(*sizes, share) for sizes, share in SIZES]


def layer(rows: int, inner: int, columns: int, share: float) -> Case:
    """The layers that take [rows, inner] to [rows, columns]."""
    draw = np.random.RandomState(0)
    x = hy.asarray(draw.randn(rows, inner).astype(np.float32))
    plain = hy.nn.Linear(inner, columns).eval().requires_grad_(False)
    weight = draw.randn(columns, inner).astype(np.float32) / np.float32(np.sqrt(inner))
    plain.load_state_dict({"weight": weight, "bias": draw.randn(columns).astype(np.float32)})
    dynamic = hy.compress.quantize(plain, "dynamic").eval()
    static = hy.compress.quantize(plain, "static", data=[x]).eval()
    weights = hy.compress.quantize(plain, "weight_only").eval()
    layers = {"float32": plain, "dynamic": dynamic, "static": static, "weights alone": weights}
    planned = {name: hy.hybridize(lambda x, of=of: of(x)) for name, of in layers.items()}

    def check() -> dict[str, str]:
        exact = plain(x).numpy()
        facts = {}
        for name, of in layers.items():
            require_same_bits(name, of(x), planned[name](x))
            require_close(name, of(x), exact, tolerance=0.2)
            found = of(x).numpy()
            cosine = np.sum(found * exact) / np.sqrt(np.sum(found**2) * np.sum(exact**2))
            if name != "float32":
                facts[name] = f"cosine {cosine:.5f}"
        return facts

    ways: dict[str, Way] = {name: _called(run, x) for name, run in planned.items()}
    ways["float32, eager"], ways["dynamic, eager"] = _called(plain, x), _called(dynamic, x)
    return Case(
        label=f"{rows}x{inner}x{columns}",
        ways=ways,
        check=check,
        threads=1,
        clock="cpu",
        targets={"dynamic": (Target(share),), "weights alone": (Target(LEAST),)},
    )


def _called(function: Any, x: hy.Tensor) -> Way:
    return lambda: function(x)
