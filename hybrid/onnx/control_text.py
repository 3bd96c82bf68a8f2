"""If, Loop and Scan as Python's own ``if``, ``for`` and ``while``, which captures know.

::

    if cond:  # If
        y = then_value
    else:
        y = else_value
    for i in range(count(m)):  # Loop
        if not going:
            break
        total, going = add(total, x), less(total, limit)
        rows.append(total)
    ys = hy.stack(rows)
"""

from __future__ import annotations

from typing import Any

from hybrid.onnx.function_bodies import since_version
from hybrid.onnx.model_file import DTYPES, outer_names
from hybrid.onnx.model_text import Construct, Expression, GraphNames, ModelText

_ENDLESS = 1 << 31  # a number of iterations that means: until the condition fails


def write_if(text: ModelText, node: Any, scope: GraphNames) -> None:
    """The two graphs as the branches of an ``if``."""
    graphs = {attribute.name: attribute.g for attribute in node.attribute}
    if set(graphs) != {"then_branch", "else_branch"} or len(node.input) != 1:
        raise text.file.fail("it needs one input, a then_branch and an else_branch", node)
    test = text.value(node.input[0], scope, node)
    names = [text.fresh(name) for name in node.output]
    text.write(f"if {test.text}:")
    known = test.known and not text.loops  # the index of a loop may be in it
    for at, branch in enumerate(("then_branch", "else_branch")):
        graph = graphs[branch]
        if len(graph.output) != len(names) or graph.input:
            raise text.file.fail(
                f"its {branch} has {len(graph.input)} inputs and {len(graph.output)} outputs",
                node,
                why=f"It takes none, and gives {len(names)}.",
            )
        text.depth += 1
        inner = text.scope_of(graph, scope)
        text.body(graph, inner, [value.name for value in graph.output])
        for name, value in zip(names, graph.output, strict=True):
            found = text.value(value.name, inner, node)
            text.write(f"{name} = {found.text if known else text.as_tensor(found)}")
        text.depth -= 1
        if at == 0:
            text.write("else:")
    for name, variable in zip(node.output, names, strict=True):
        scope.values[name] = Expression(variable, known)


def write_loop(text: ModelText, node: Any, scope: GraphNames) -> None:
    """The body inside a ``for``, or a ``while`` where no number of iterations is given."""
    graph = _body_of(text, node)
    given = [text.value(name, scope, node) if name else None for name in node.input]
    given += [None] * (2 - len(given))
    limit, going, *initial = given
    carried = len(initial)
    rows = len(graph.output) - 1 - carried
    if len(graph.input) != 2 + carried or rows < 0 or len(node.output) > carried + rows:
        raise text.file.fail(
            f"its body takes {len(graph.input)} values and gives {len(graph.output)}, the node has "
            f"{len(node.output)} outputs",
            node,
            why=f"{carried} values are carried.",
        )
    inner = text.scope_of(graph, scope)
    variables = _carry(text, inner, graph.input[2:], initial, node)
    lists = _lists(text, graph.output[1 + carried :])
    result = graph.output[0].name
    tested = not _always(inner, graph, result, graph.input[1].name)
    endless = limit is None or (
        limit.written is not None and limit.written.size == 1 and limit.written.item() >= _ENDLESS
    )
    test = "True"
    if tested or (going is not None and not _is_true(going)):
        test = text.fresh(graph.input[1].name, "going")
        start = "True" if going is None else text.as_tensor(going)
        text.write(f"{test} = {start}")
    inner.values[graph.input[1].name] = Expression(test)
    index = text.fresh(graph.input[0].name, "i")
    reads_index = any(graph.input[0].name in outer_names(inside) for inside in graph.node)
    if endless:
        if reads_index:
            text.write(f"{index} = 0")
        text.write(f"while {test}:")
    else:
        assert limit is not None
        counted = f"{text.use('count')}({limit.text})"
        text.write(f"for {index} in range({counted}):")
    text.depth += 1
    if not endless and test != "True":
        text.write(f"if not {test}:")
        text.write("    break")
    inner.values[graph.input[0].name] = Expression(f"{text.use('known_index')}({index})", True)
    if reads_index:
        step = text.fresh(f"{index}_known")
        text.write(f"{step} = known_index({index})")
        inner.values[graph.input[0].name] = Expression(step, True)
    text.loops += 1
    text.body(graph, inner, [value.name for value in graph.output])
    text.loops -= 1
    found = [text.value(value.name, inner, node) for value in graph.output]
    _step(text, variables, found[1 : 1 + carried], lists, found[1 + carried :])
    if tested:
        text.write(f"{test} = {text.as_tensor(found[0])}")
    if endless and reads_index:
        text.write(f"{index} = {index} + 1")
    if not (variables or lists or tested or reads_index):
        text.write("pass")
    text.depth -= 1
    for name, variable in zip(node.output, variables, strict=False):
        scope.values[name] = Expression(variable)
    for name, value, items in zip(
        node.output[carried:], graph.output[1 + carried :], lists, strict=False
    ):
        if name:
            _join(text, scope, name, items, value, 0, False)


def write_scan(text: ModelText, node: Any, scope: GraphNames) -> None:
    """The body inside a ``for`` over rows."""
    graph = _body_of(text, node)
    ints = {attribute.name: attribute for attribute in node.attribute}
    count = ints["num_scan_inputs"].i if "num_scan_inputs" in ints else 0
    of_batches = since_version(node, text.file) == 8
    names = list(node.input)
    if of_batches:
        if names and names[0]:
            raise text.file.fail(
                "its sequences differ in length", node, why="Opset 8 alone has that."
            )
        names = names[1:]
    carried = len(names) - count
    rows = len(graph.output) - carried
    agrees = 0 < count <= len(names) and len(graph.input) == len(names) and rows >= 0
    if not agrees or len(node.output) != len(graph.output):
        raise text.file.fail(
            f"its body takes {len(graph.input)} values and gives {len(graph.output)}, the node has "
            f"{len(names)} inputs and {len(node.output)} outputs",
            node,
            why=f"{carried} values are carried, {count} gone over.",
        )
    given = [text.value(name, scope, node) for name in names]

    def list_of(name: str, length: int) -> list[int]:
        values = list(ints[name].ints) if name in ints else [0] * length
        if len(values) != length:
            raise text.file.fail(f"attribute {name!r} has {len(values)} numbers", node)
        return values

    inner = text.scope_of(graph, scope)
    input_axes, output_axes = list_of("scan_input_axes", count), list_of("scan_output_axes", rows)
    back = list_of("directions" if of_batches else "scan_input_directions", count)
    output_back = list_of("scan_output_directions", rows)
    feeds = []
    for expression, value, axis, backwards in zip(
        given[carried:], graph.input[carried:], input_axes, back, strict=True
    ):
        feed = text.fresh(f"{value.name}_rows")
        options = f", axis={axis}" if axis else ""
        options += ", backwards=True" if backwards else ""
        options += ", batches=True" if of_batches else ""
        text.write(f"{feed} = {text.use('rows')}({text.as_tensor(expression)}{options})")
        feeds.append(feed)
    initial: list[Expression | None] = list(given[:carried])
    finals: list[str] = []
    batch_lists: list[str] = []
    if of_batches:
        finals = _lists(text, graph.output[:carried])
        batch_lists = _lists(text, graph.output[carried:])
        entry = text.fresh("entry")
        text.write(f"for {entry} in range({feeds[0]}.shape[0]):")
        text.depth += 1
        initial = [Expression(f"{text.as_tensor(item)}[{entry}]") for item in given[:carried]]
        feeds = [f"{feed}[{entry}]" for feed in feeds]
    variables = _carry(text, inner, graph.input[:carried], initial, node)
    lists = _lists(text, graph.output[carried:])
    step = text.fresh("step")
    text.write(f"for {step} in range({feeds[0]}.shape[0]):")
    text.depth += 1
    for feed, value in zip(feeds, graph.input[carried:], strict=True):
        row = text.fresh(value.name)
        text.write(f"{row} = {feed}[{step}]")
        inner.values[value.name] = Expression(row)
    text.body(graph, inner, [value.name for value in graph.output])
    found = [text.value(value.name, inner, node) for value in graph.output]
    _step(text, variables, found[:carried], lists, found[carried:])
    text.depth -= 1
    if of_batches:
        for variable, items in zip(variables, finals, strict=True):
            text.write(f"{items}.append({variable})")
        for items, outer in zip(lists, batch_lists, strict=True):
            text.write(f"{outer}.append(hy.stack({items}))")
        text.depth -= 1
        for name, items in zip(node.output, [*finals, *batch_lists], strict=True):
            if name:
                made = text.fresh(name)
                text.write(f"{made} = hy.stack({items})")
                scope.values[name] = Expression(made)
        return
    for name, variable in zip(node.output, variables, strict=False):
        scope.values[name] = Expression(variable)
    for name, value, items, axis, backwards in zip(
        node.output[carried:], graph.output[carried:], lists, output_axes, output_back, strict=True
    ):
        if name:
            _join(text, scope, name, items, value, axis, bool(backwards))


CONSTRUCTS: dict[str, Construct] = {
    "If": write_if,
    "Loop": write_loop,
    "Scan": write_scan,
}


def _body_of(text: ModelText, node: Any) -> Any:
    for attribute in node.attribute:
        if attribute.name == "body":
            return attribute.g
    raise text.file.fail("it has no body", node)


def _carry(
    text: ModelText, inner: GraphNames, inputs: Any, initial: list[Expression | None], node: Any
) -> list[str]:
    """Write what variables hold before the first iteration."""
    variables = []
    for value, first in zip(inputs, initial, strict=True):
        if inner.find(value.name) is not None:
            raise text.file.fail(f"the name {value.name!r} is given twice", node)
        variable = text.fresh(value.name)
        text.write(f"{variable} = {'None' if first is None else text.as_tensor(first)}")
        inner.values[value.name] = Expression(variable)
        variables.append(variable)
    return variables


def _lists(text: ModelText, outputs: Any) -> list[str]:
    """Write the empty lists that rows of results go into."""
    made = [text.fresh(f"{value.name}_list") for value in outputs]
    for name in made:
        text.write(f"{name} = []")
    return made


def _step(
    text: ModelText,
    variables: list[str],
    carried: list[Expression],
    lists: list[str],
    rows: list[Expression],
) -> None:
    """Write what an iteration ends with."""
    for name, row in zip(lists, rows, strict=True):
        text.write(f"{name}.append({text.as_tensor(row)})")
    if variables:
        after = ", ".join(text.as_tensor(item) for item in carried)
        text.write(f"{', '.join(variables)} = {after}")


def _join(
    text: ModelText,
    scope: GraphNames,
    name: str,
    items: str,
    value: Any,
    axis: int,
    backwards: bool,
) -> None:
    """Write how the rows of a result become a tensor; of no rows its type has to be known."""
    made = text.fresh(name)
    joined = f"hy.stack({items}{f', axis={axis}' if axis else ''})"
    if backwards:
        joined = f"hy.flip({joined}, axis={axis})"
    kind = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
    if kind.HasField("shape") and min(shape, default=0) >= 0 and kind.elem_type in DTYPES:
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
        empty = f"hy.zeros({shape}, dtype=hy.{DTYPES[kind.elem_type].name})"
        joined = f"{joined} if {items} else {empty}"
    text.write(f"{made} = {joined}")
    scope.values[name] = Expression(made)


def _always(inner: GraphNames, graph: Any, result: str, given: str) -> bool:
    """Whether a loop's condition is what it was before, or True, after each iteration."""
    if result == given:
        return True
    for node in graph.node:
        if result in node.output and node.op_type == "Identity":
            return _always(inner, graph, node.input[0], given)
    found = inner.find(result)
    return found is not None and _is_true(found)


def _is_true(expression: Expression) -> bool:
    written = expression.written
    return written is not None and written.size == 1 and bool(written.all())
