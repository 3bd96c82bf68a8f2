"""LBFGS: limited-memory BFGS with a closure, and a line search for the strong Wolfe conditions.

J. Nocedal and S. Wright, Numerical Optimization, 2nd edition, algorithms 7.4 and 7.5 and chapter
3.5; the steps and the tests for the end are PyTorch's.  It is written as users write programs, and
captured as those are: how many iterations and evaluations there are depends on values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hybrid import ops
from hybrid.autodiff import enable_grad, no_grad
from hybrid.core.types import float16, int64
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError
from hybrid.nn.modules.parameter import in_dtype, present
from hybrid.ops.support.operand_checks import require_number
from hybrid.optim.optimizer import Optimizer

DECREASE, CURVATURE = 1e-4, 0.9  # the constants of the strong Wolfe conditions


class LBFGS(Optimizer):
    """Moves all parameters together; ``step(closure)`` evaluates ``closure`` as often as it needs.

    ``closure`` clears the gradients, computes the loss, calls ``backward()`` and returns the loss.
    A step has at most ``max_iter`` iterations and about ``max_eval`` evaluations (by default 1.25
    times as many); it ends early where the largest gradient is below ``tolerance_grad``, or where
    parameters or loss change by less than ``tolerance_change``.  ``line_search_fn`` is None, for
    steps of length ``lr``, or "strong_wolfe".  Memory: ``2 * history_size`` times the parameters,
    which are in one group and of one dtype, float32 or float64.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        _check(defaults)
        super().__init__(params, defaults)
        self._make_cells()

    def _make_cells(self) -> None:
        params, rows = self.param_groups[0].params, self.param_groups[0].history_size
        dtype, size = params[0].dtype, sum([p.size for p in params])
        whole: dict[str, Any] = {"dtype": int64}
        self.n_iter = ops.zeros((), **whole)  # iterations of all steps
        self.func_evals = ops.zeros((), **whole)
        self.stored = ops.zeros((), **whole)  # pairs of the history, those no longer kept included
        self.old_dirs = ops.zeros((rows, size), dtype=dtype)  # differences of gradients, in a ring
        self.old_stps = ops.zeros((rows, size), dtype=dtype)  # those of parameters
        self.ro = ops.zeros((rows,), dtype=dtype)  # one over their products
        self.scale = ops.ones((), dtype=dtype)  # of the first guess of the inverse Hessian
        self.d = ops.zeros((size,), dtype=dtype)  # the last direction
        self.t = ops.zeros((), dtype=dtype)  # the last length along it
        self.prev_flat_grad = ops.zeros((size,), dtype=dtype)

    def add_param_group(self, given: Mapping[str, Any]) -> None:
        if self.param_groups:
            raise ArgumentError(
                "LBFGS has one parameter group",
                why="Its directions are those of all parameters together.",
                fix="pass all parameters to one LBFGS",
            )
        super().add_param_group(given)
        group = self.param_groups[0]
        _check({name: group[name] for name in self.defaults})
        dtypes = {p.dtype for p in group.params}
        if len(dtypes) != 1 or next(iter(dtypes)).itemsize <= float16.itemsize:
            raise ArgumentTypeError(
                "LBFGS got parameters of " + ", ".join(sorted(d.name for d in dtypes)),
                why="They move together, in one dtype, float32 or float64.",
                fix="convert the module with to(hybrid.float32)",
            )

    # A step -----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move all parameters; gives what ``closure`` returned first, the loss before the step."""
        if closure is None:
            raise ArgumentTypeError(
                "LBFGS.step got no closure",
                why="A step evaluates the loss more than once.",
                fix="step(closure), where closure clears the gradients, calls backward() on the "
                "loss and returns it",
            )
        group = self.param_groups[0]
        max_iter, max_eval = group.max_iter, group.max_eval
        tolerance, least = group.tolerance_grad, group.tolerance_change
        searching = group.line_search_fn is not None
        with no_grad():
            lr = in_dtype(group.cells.lr, self.d.dtype)
            first, loss, grad = self._evaluate(closure)
            evals, n = ops.ones((), dtype=int64), ops.zeros((), dtype=int64)
            goes_on = _largest(grad) > tolerance
            while goes_on:
                n = n + 1
                self.n_iter.assign(self.n_iter + 1)
                if self.n_iter == 1:
                    d = -grad
                    t = ops.minimum(1.0 / ops.sum(ops.abs(grad)), 1.0) * lr
                else:
                    self._remember(grad)
                    d = self._direction(grad)
                    t = lr * 1.0
                self.prev_flat_grad.assign(grad)
                self.d.assign(d)
                before = loss
                slope = _dot(grad, d)
                goes_on = slope <= -least
                if goes_on:
                    x = self._flat()
                    more = ops.zeros((), dtype=int64)
                    if searching:
                        t, loss, grad, more = self._search(
                            closure, x, t, d, loss, grad, slope, max_eval - evals
                        )
                        self._move(x + t * d)
                    else:
                        self._move(x + t * d)
                        if n != max_iter:
                            _, loss, grad = self._evaluate(closure)
                            more = more + 1
                    evals = evals + more
                    goes_on = (
                        (n < max_iter)
                        & (evals < max_eval)
                        & (_largest(grad) > tolerance)
                        & (_largest(d * t) > least)
                        & (ops.abs(loss - before) >= least)
                    )
                self.t.assign(t)
            self.func_evals.assign(self.func_evals + evals)
        return first

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, Tensor, Tensor]:
        """What ``closure`` gives, its value, and the gradients of all parameters side by side."""
        with enable_grad():
            result = closure()
        if not isinstance(result, Tensor):
            raise ArgumentTypeError(
                f"the closure of LBFGS returned {type(result).__name__}", fix="return the loss"
            )
        loss = ops.reshape(in_dtype(result.detach(), self.d.dtype), ())
        parts = []
        for p in self.param_groups[0].params:
            g = p.grad
            g = ops.zeros((p.size,), dtype=p.dtype) if g is None else ops.flatten(present(g))
            parts.append(g)
        return result, loss, ops.concat(parts)

    def _flat(self) -> Tensor:
        return ops.concat([ops.flatten(p.detach()) for p in self.param_groups[0].params])

    def _move(self, flat: Tensor) -> None:
        """Put the parameters, side by side in ``flat``, in their places."""
        start = 0
        for p in self.param_groups[0].params:
            p.assign(ops.reshape(flat[start : start + p.size], p.shape))
            start += p.size

    def _remember(self, grad: Tensor) -> None:
        """Take the last move into the history, if the curvature along it is above zero."""
        y, s = grad - self.prev_flat_grad, self.d * self.t
        product = _dot(y, s)
        if product > 1e-10:
            at = self.stored % self.ro.shape[0]
            self.old_dirs[at] = y
            self.old_stps[at] = s
            self.ro[at] = 1.0 / product
            self.scale.assign(product / _dot(y, y))
            self.stored.assign(self.stored + 1)

    def _direction(self, grad: Tensor) -> Tensor:
        """Minus the inverse Hessian, as the history has it, times ``grad``."""
        rows, last = self.ro.shape[0], self.stored - 1
        count = ops.minimum(self.stored, rows)
        shares, r = ops.zeros_like(self.ro), -grad
        for k in range(count):
            i = (last - k) % rows
            share = _dot(self.old_stps[i], r) * self.ro[i]
            shares[i] = share
            r = r - share * self.old_dirs[i]
        r = r * self.scale
        for k in range(count):
            i = (last - count + 1 + k) % rows
            r = r + (shares[i] - _dot(self.old_dirs[i], r) * self.ro[i]) * self.old_stps[i]
        return r

    def _search(
        self,
        closure: Callable[[], Any],
        x: Tensor,
        t: Tensor,
        d: Tensor,
        loss: Tensor,
        grad: Tensor,
        slope: Tensor,
        most: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(length, loss, gradient, evaluations) where the strong Wolfe conditions hold along ``d``.

        Points are (length, loss, gradient, slope).  First the length grows until there is a bracket
        of two points, ``low`` with the lower loss; then the bracket shrinks.  There are at
        most ``most`` evaluations after the first.
        """
        least, width = self.param_groups[0].tolerance_change, _largest(d)
        start = (t * 0.0, loss, grad, slope)
        last, low, high = start, start, start
        bracketed = stalled = t != t
        evals = ops.zeros((), dtype=int64)
        searching = t == t
        while searching:
            self._move(x + t * d)
            _, f, g = self._evaluate(closure)
            new = (t, f, g, _dot(g, d))
            far = evals >= most
            too_high = f > loss + DECREASE * t * slope
            flat = ops.abs(new[3]) <= -CURVATURE * slope

            # The bracket: it is found here, ...
            crossed = too_high | ((evals > 1) & (f >= last[1]))
            done_here = ~far & ~crossed & flat
            found = ~far & ~done_here & (crossed | (new[3] >= 0))
            low_here, high_here = _in_order(_either(far, start, last), new)
            low_here = _either(done_here, new, low_here)
            # ... or one end of it is replaced.
            replaced = too_high | (f >= low[1])
            low_there, high_there = _in_order(low, new)
            beyond = new[3] * (high[0] - low[0]) >= 0
            low_there = _either(replaced, low_there, new)
            high_there = _either(replaced, high_there, _either(beyond & ~flat, low, high))
            done = ops.where(bracketed, ~replaced & flat, done_here)
            grows = ~bracketed & ~found & ~far & ~done_here

            longer = _minimum_between(last, new, t + 0.01 * (t - last[0]), t * 10.0)
            low = _either(bracketed, low_there, _either(grows, low, low_here))
            high = _either(bracketed, high_there, _either(grows, high, high_here))
            last = new
            bracketed = bracketed | found
            shorter, stalled_now = _inside(low, high, stalled)
            stalled = bracketed & stalled_now
            narrow = bracketed & (ops.abs(high[0] - low[0]) * width < least)
            searching = ~done & ~far & ~narrow
            evals = evals + 1
            searching = searching & (grows | (evals <= most))
            t = ops.where(grows, longer, shorter)
        return low[0], low[1], low[2], evals

    # State ------------------------------------------------------------------------------------

    _CELLS = (
        "n_iter", "func_evals", "stored", "old_dirs", "old_stps", "ro", "scale", "d", "t",
        "prev_flat_grad",
    )  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        """The settings under "param_groups", and under "state" at 0 what is kept of all of them."""
        found = super().state_dict()
        found["state"] = {0: {name: getattr(self, name).detach() for name in self._CELLS}}
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict()`` of an LBFGS over like parameters gave."""
        kept = state.get("state", {}).get(0, {}) if isinstance(state, Mapping) else {}
        for name in self._CELLS:
            own, given = getattr(self, name), kept.get(name)
            if not isinstance(given, Tensor) or given.type is not own.type:
                raise ArgumentError(
                    f"the state does not fit this LBFGS; {name} is "
                    f"{getattr(given, 'type', 'missing')}, not {own.type}; nothing was loaded",
                    fix="load what state_dict() gave of an LBFGS over the same parameters, with "
                    "the same history_size",
                )
        empty = {number: {} for number in range(len(self.param_groups[0].params))}
        super().load_state_dict({**state, "state": empty})
        for name in self._CELLS:
            getattr(self, name).assign(kept[name])


Point = tuple[Tensor, Tensor, Tensor, Tensor]


def _either(test: Tensor, a: Point, b: Point) -> Point:
    return tuple([ops.where(test, one, other) for one, other in zip(a, b, strict=True)])


def _in_order(a: Point, b: Point) -> tuple[Point, Point]:
    """Both points, that with the lower loss first."""
    ordered = a[1] <= b[1]
    return _either(ordered, a, b), _either(ordered, b, a)


def _minimum_between(a: Point, b: Point, low: Tensor, high: Tensor) -> Tensor:
    """Where the cubic through two points with their slopes is least, of [``low``, ``high``]."""
    ordered = a[0] <= b[0]
    a, b = _either(ordered, a, b), _either(ordered, b, a)
    d1 = a[3] + b[3] - 3.0 * (a[1] - b[1]) / (a[0] - b[0])
    square = d1 * d1 - a[3] * b[3]
    d2 = ops.sqrt(ops.maximum(square, 0.0))
    at = b[0] - (b[0] - a[0]) * ((b[3] + d2 - d1) / (b[3] - a[3] + 2.0 * d2))
    return ops.where(square >= 0, ops.minimum(ops.maximum(at, low), high), (low + high) / 2.0)


def _inside(a: Point, b: Point, stalled: Tensor) -> tuple[Tensor, Tensor]:
    """(the next length in a bracket, whether it came close to an end for the first time)."""
    low, high = ops.minimum(a[0], b[0]), ops.maximum(a[0], b[0])
    t = _minimum_between(a, b, low, high)
    margin = 0.1 * (high - low)
    close = ops.minimum(high - t, t - low) < margin
    pushed = close & (stalled | (t >= high) | (t <= low))
    end = ops.where(ops.abs(t - high) < ops.abs(t - low), high - margin, low + margin)
    return ops.where(pushed, end, t), close & ~pushed


def _largest(x: Tensor) -> Tensor:
    return ops.max(ops.abs(x))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return ops.matmul(a, b)


def _check(settings: Mapping[str, Any]) -> None:
    for name in ("max_iter", "max_eval", "history_size"):
        value = settings[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(f"LBFGS got {name} {value!r}", fix="give an int of at least 1")
    for name in ("tolerance_grad", "tolerance_change"):
        require_number(name, settings[name])
    if settings["line_search_fn"] not in (None, "strong_wolfe"):
        raise ArgumentError(
            f"LBFGS got line_search_fn {settings['line_search_fn']!r}",
            fix='give None or "strong_wolfe"',
        )
