"""Names: bound on one path only, unbound, deleted, global and nonlocal."""

# ruff: noqa: B007, B020, F821, F841, SIM108  the programs are about these forms

import hybrid as hy
from tests.staging.harness import Program, Table, draw, f32, i64

table = Table()
X = f32([1.0, -2.0, 3.0])
NUMBERS = [f32(v) for v in (-2.0, 0.5, 2.0)]
COUNTS = [i64(n) for n in (0, 1, 3)]


@table.runs(*NUMBERS)
def bound_in_one_branch(x):
    """y is read only where it was bound."""
    p = x > 0
    if p:
        y = x * 2
    if p:
        return y
    return x


@table.runs(*NUMBERS)
def bound_in_one_branch_and_read_again(x):
    p = x > 0
    if p:
        y = x * 2
    z = x
    if p:
        z = z + y
    if p:
        z = z * y
    return z


@table.runs(*NUMBERS)
def unbound_on_one_path(x):
    if x > 0:
        y = x * 2
    return y


@table.runs(*NUMBERS)
def unbound_in_an_expression(x):
    if x > 1:
        a = x
    else:
        b = x
    return a + b


@table.runs(*NUMBERS, covered=False)
def unbound_on_every_path(x):
    if x > 0:
        z = x
    return y
    y = x


@table.runs(*NUMBERS)
def unbound_augmented(x):
    if x > 0:
        y = x * 1
    y += 1
    return y


@table.runs(*NUMBERS)
def unbound_but_overwritten(x):
    if x > 0:
        y = x * 2
    y = x + 1
    return y


@table.runs(*NUMBERS)
def unbound_and_unused(x):
    if x > 0:
        y = x * 2
    return x


@table.runs(*[(X, n) for n in COUNTS])
def zero_trips_leave_names_unbound(x, n):
    for i in range(n):
        y = x * i
    return y


@table.runs(*[(X, n) for n in COUNTS])
def zero_trips_leave_the_index_unbound(x, n):
    for i in range(n):
        x = x + 1
    return x, i


@table.runs(*NUMBERS)
def zero_trips_of_while(x):
    while x < 1:
        x = x + 1
        y = x * 10
    return y


@table.runs(*[(X, n) for n in COUNTS])
def zero_trips_then_bound(x, n):
    for i in range(n):
        y = x * i
    if n > 0:
        return y
    return x


@table.runs((X, 0), (X, 2))
def python_zero_trips(x, n):
    for i in range(n):
        y = x * i
    return y


@table.runs((X, True), (X, False))
def python_unbound(x, p):
    if p:
        y = x
    return y


@table.runs(X, covered=False)
def name_of_nothing(x):
    return x + undefined_anywhere


@table.runs(*NUMBERS)
def deleted(x):
    y = x * 2
    if x > 0:
        y = y + 1
    del y
    y = x
    return y


@table.runs(*NUMBERS)
def deleted_in_one_branch(x):
    y = x * 2
    if x > 0:
        del y
        y = x
    return y


@table.runs(*NUMBERS)
def deleted_then_read_on_one_path(x):
    y = x * 2
    if x > 0:
        del y
    return y


@table.runs(*NUMBERS)
def deleted_then_deleted(x):
    y = x * 2
    if x > 0:
        del y
    else:
        x = y
    del y
    return x


@table.runs(*[(X, n) for n in COUNTS])
def deleted_in_each_iteration(x, n):
    for _ in range(n):
        y = x * 2
        x = y + 1
        del y
    return x


@table.runs(*NUMBERS)
def isinstance_after_a_branch(x):
    y = 0
    if x > 0:
        y = x * 2
    else:
        y = x + 1
    return isinstance(y, hy.Tensor), isinstance(x, (int, hy.Tensor)), type(y) is hy.Tensor


@table.runs(*NUMBERS)
def isinstance_of_a_number(x):
    y = 1 if x > 0 else 2
    return isinstance(y, int), isinstance(y, float), isinstance(y, bool), isinstance(x > 0, bool)


@table.runs(*NUMBERS, covered=False)
def bound_in_both_to_python_alike(x):
    if x > 0:
        mode = "same"
        y = x
    else:
        mode = "same"
        y = -x
    if mode == "same":
        return y
    raise AssertionError


@table.runs(*NUMBERS)
def none_in_both(x):
    if x > 0:
        extra = None
        y = x * 2
    else:
        extra = None
        y = x
    return y, extra


@table.runs(*NUMBERS)
def same_object_in_both(x):
    shared = [x]
    if x > 0:
        kept = shared
        shared = None
    else:
        kept = shared
        shared = None
    return kept, shared


@table.runs(*NUMBERS)
def functions_bound_in_both(x):
    if x > 0:
        f = hy.exp
        y = x
    else:
        f = hy.exp
        y = x * 2
    return f(y)


@table.runs(*NUMBERS)
def function_used_inside_its_branch(x):
    if x > 0:

        def f(v):
            return v * 2

        y = f(x)
    else:

        def f(v):
            return v * 3

        y = f(x)
    return y


@table.runs(*NUMBERS)
def python_values_used_inside_their_branch(x):
    if x > 0:
        name, size = "a", 3
        y = hy.ones(size) * x + len(name)
    else:
        name, size = "bcd", 3
        y = hy.zeros(size) + len(name)
    return y


@table.runs(*NUMBERS)
def import_in_a_branch(x):
    if x > 0:
        from math import pi as k
    else:
        from math import e as k
    return x * k


@table.runs(*NUMBERS)
def class_in_a_branch(x):
    if x > 0:

        class Box:
            v = 2.0

        y = x * Box.v
    else:
        y = x
    return y


@table.runs(*NUMBERS)
def names_that_look_generated(x):
    hyb = 1
    hyb_1 = x
    hyb__ = x * 2
    hyb_returned = hyb + x
    hyb_break_1 = x
    if x > 0:
        hyb_1 = hyb_1 + hyb_returned
        return hyb_1 * hyb__
    return hyb_break_1


hyb_function = hyb_factory = 2.0
hyb__1 = 3.0


@table.runs(*NUMBERS)
def names_that_look_generated_elsewhere(x):
    hyb_items, hyb_item1 = x, x * 2

    def inner(hyb__0, hyb_result=x):
        if hyb__0 > 0:
            return hyb_result * hyb_function + hyb__0 * hyb__1
        return hyb_factory * hyb_items

    class Owner:
        hyb_class = 4.0
        hyb__ = hyb_items

        def hyb_break_1(self, hyb__):
            for hyb_continue_1 in range(2):
                if self.hyb__ > hyb_continue_1:
                    break
            return self.hyb_class * hyb__

    found = [hyb_items + v for v in (x, hyb_item1) if v > hyb_item1 - 1]
    return found, inner(x), inner(hyb__0=-x), Owner().hyb_break_1(hyb__=x), sorted(locals())


@table.runs(*NUMBERS)
def names_of_builtins(x):
    range = [1.0, 2.0]
    print = x
    for sum in range:
        print = print + sum
    return print


@table.runs(*NUMBERS)
def loop_variable_is_the_argument(x):
    for x in [x, x * 2, x * 3]:
        if x > 3:
            break
    return x


@table.runs(*NUMBERS)
def shadowed_in_a_nested_function(x):
    y = x

    def inner():
        y = x * 100
        if y > 0:
            y = y + 1
        return y

    return inner() + y


@table.runs(*NUMBERS)
def late_binding(x):
    def use():
        return later * 2

    if x > 0:
        later = x
    else:
        later = x - 1
    return use()


@table.runs(*NUMBERS)
def closure_unbound_on_one_path(x):
    def use():
        return later * 2

    if x > 0:
        later = x
    return use() if x > 0 else x


TOTAL = hy.zeros(())
SETTING = 2.0


@table.makes(*NUMBERS, plans=1)
def global_tensor():
    global TOTAL
    TOTAL = hy.zeros(())

    def run(x):
        global TOTAL
        if x > 0:
            TOTAL = TOTAL + x
        return TOTAL * 2

    return run


@table.makes(*NUMBERS, plans=1)
def global_in_a_loop():
    global TOTAL
    TOTAL = hy.zeros(())

    def run(x):
        global TOTAL
        for i in range(3):
            TOTAL = TOTAL * 0.5 + x * i
        return x

    def both(x):
        return run(x), TOTAL

    return both


@table.makes(f32(5.0), *NUMBERS, plans=1)
def nonlocal_that_outlives_the_call():
    total = hy.zeros(())

    def run(x):
        nonlocal total
        if x > 0:
            total = total + x
        while total > 3:
            total = total - 1
        return total * 2

    return run


@table.runs(*NUMBERS)
def global_setting_is_read(x):
    if x > 0:
        return x * SETTING
    return x


@table.runs(draw(3), -draw(3))
def tuple_targets(x):
    (a, b), c = (x, x * 2), x
    if hy.sum(x) > 0:
        (a, b), (c, *d) = (b, a), [x, x]
    else:
        d = [a]
    return a, b, c, d


@table.runs(*NUMBERS)
def chained_assignment(x):
    a = b = x * 2
    if x > 0:
        a = b = a + 1
    return a, b


@table.runs(*NUMBERS)
def bound_by_with_and_except(x):
    try:
        if x > 0:
            y = x
        else:
            y = -x
        raise KeyError(y.shape)
    except KeyError as error:
        z = len(error.args)
    return y, z


@table.runs(*NUMBERS)
def locals_are_what_they_are(x):
    y = x * 2
    names = sorted(locals())
    return y, names


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()
