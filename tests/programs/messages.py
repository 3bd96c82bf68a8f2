"""Functions that print and raise.

They stand apart from the tests, in which pytest changes what an assert says.
"""

# ruff: noqa: UP031

from __future__ import annotations

import logging
import math
import sys
import warnings

import hybrid as hy


class Odd(Exception):
    """An exception that a program has no class of."""


class Loud(Exception):
    """One that writes its own text."""

    def __str__(self) -> str:
        return f"loud {self.args[0]}"


def numbers(x):
    total, largest = hy.sum(x).item(), hy.max(x).item()
    print("total", total, f"{largest:10.4f}|{largest!r:}|{total:e}", sep=" / ", end=" end\n")
    print("{:.2f} and {}".format(*(total, largest > 1.0)), f"{{{total:,.3f}}}")
    print("%5.1f%% of %s, %-8.3e|" % (total, largest, total), True, None, [1, "a"])
    print()
    print(f"{hy.mean(x):.3f} {hy.sum(x):>12.1f}")
    return x


def tensors(x):
    weight = hy.ones(())
    weight.requires_grad = True
    loss = hy.sum(x) * weight
    print("loss:", hy.mean(x), f"{hy.max(x)}", "%s" % hy.min(x), loss, hy.sum(x > 0))
    print(
        x,
        f"{x > 0} {x * weight}",
        hy.reshape(x, (-1,)),
        x + hy.zeros((9, 9, 9, *x.shape)),
        sep="\n",
    )
    return loss.detach()


def counted(x):
    seen = 0
    for row in x:
        if hy.sum(row) > 0.5:
            seen += 1
            print("row", seen, f"{hy.sum(row).item():.3g} {seen:03d} {seen:x}")
        else:
            print("none", file=sys.stderr)
    print(f"{seen} rows")
    sys.stdout.write("over\n")
    return x * seen


def asserted(x):
    largest = hy.max(x)
    assert largest < 2.0, f"{largest.item():.2f} is too much"
    return x


def plainly(x):
    assert hy.all(x < 2.0)
    return x


def raised(x):
    if hy.max(x) > 2.0:
        raise ValueError("too large: %.3f" % hy.max(x).item())
    return x * 2


def keyed(x):
    if hy.max(x) > 2.0:
        raise KeyError
    return x


def unnamed(x):
    if hy.max(x) > 2.0:
        raise KeyError("a 'b'")
    return x


def counted_keys(x):
    if hy.max(x) > 2.0:
        raise KeyError(hy.sum(x > 5.0).item())
    return x


def told_keys(x):
    if hy.max(x) > 2.0:
        raise KeyError(f"it's row {hy.sum(x > 2.0).item()} of {hy.max(x).item():.2f}")
    return x


def odd(x):
    if hy.max(x) > 2.0:
        raise Odd(hy.max(x).item(), {})
    return x


def ours(x):
    if hy.max(x) > 2.0:
        raise hy.errors.ShapeError("a {shape}")
    return x


def divided(x):
    count = hy.sum(x > 2.0).item()
    return x / (10 // (1 - count) + 5)


def averaged(x):
    seen, large = 0, 0
    for row in x:
        seen += 1
        if row > 0.5:
            large += 1
    if large / seen < 0.8:
        raise ValueError(f"{large / seen:.3f} of {seen}")
    return x * (large / seen)


def modulo(x):
    return x * (hy.max(x).item() % (3.0 - hy.max(x).item()))


def indexed(x):
    return x[hy.sum(x > 2.0).item() + len(x) - 1]


def shifted(x):
    return x * (8 >> (hy.sum(x < 2.0).item() - x.size))


def rounded(x):
    return x * int(hy.max(x).item() * 3)


def rooted(x):
    return x * math.sqrt(2.0 - hy.max(x).item())


def overflowing(x):
    count = hy.max(x).item()
    total = int(count) + 2**62
    return x, total + total


def whole(x):
    print("all of it", x.astype(hy.bfloat16))
    return x


def logged(x):
    logging.getLogger("programs").warning("sum %s", hy.sum(x))
    return x


def warned(x):
    if hy.sum(x) > 1e9:
        warnings.warn(f"sum {hy.sum(x).item()}", stacklevel=1)
    return x


def nested(x):
    print(f"{f'{hy.sum(x).item()}':>20}")
    return x


def local(x):
    print(f"{hy.sum(x).item():n}")
    return x


def truncated(x):
    print("%d" % hy.sum(x).item())
    return x


def loud(x):
    if hy.sum(x) > 1e9:
        raise Loud(hy.sum(x).item())
    return x


def of_gamma(x):
    return x * math.gamma(hy.sum(x).item())


def called(x):
    return hy.py_call(lambda a: a, x, result=x.type)
