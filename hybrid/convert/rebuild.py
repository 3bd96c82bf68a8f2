"""Code objects and functions rebuilt from syntax trees, to stand in place of the author's.

The tree is compiled inside a function that binds the free variables, so that they are free again,
and inside a class of the author's name, so that private names are mangled as they were.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybrid.core.own_names import PREFIX

FLAGS = functools.reduce(
    int.__or__, [getattr(__future__, n).compiler_flag for n in __future__.all_feature_names]
)
FACTORY, CLASS, FUNCTION = f"{PREFIX}factory", f"{PREFIX}class", f"{PREFIX}function"
ITEMS = f"{PREFIX}items"  # what a comprehension is given to go over
NO_NAME = "\0"  # begins the constants that stand for objects: no author writes such a string


def compiled(
    node: ast.FunctionDef | ast.Lambda,
    like: types.CodeType,
    class_name: str | None,
    imports: Sequence[str],
) -> types.CodeType:
    """The code object of the tree ``node``, in the file and scopes of the code ``like``."""
    module = _wrapped(node, like, class_name, imports)
    flags = like.co_flags & FLAGS
    code = _compile(module, like.co_filename, flags)
    for name in (FACTORY, *_classes(class_name)):
        code = _code_in(code, name)
    code = _code_in(code, FUNCTION if isinstance(node, ast.FunctionDef) else like.co_name)
    return code.replace(co_name=like.co_name)


def _compile(module: ast.Module, path: str, flags: int) -> types.CodeType:
    try:
        return compile(module, path, "exec", flags=flags, dont_inherit=True)
    except SystemError:  # CPython 3.11 miscounts how deep trees are when a collection comes between
        return compile(module, path, "exec", flags=flags, dont_inherit=True)


def _wrapped(
    node: ast.FunctionDef | ast.Lambda,
    like: types.CodeType,
    class_name: str | None,
    imports: Sequence[str],
) -> ast.Module:
    bare = copy.copy(node)
    arguments = bare.args = copy.copy(node.args)
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    if isinstance(bare, ast.FunctionDef):
        bare.name = FUNCTION  # its own name may be a global that it reads
        for field in ("posonlyargs", "args", "kwonlyargs"):
            setattr(arguments, field, [_unannotated(a) for a in getattr(arguments, field)])
        for field in ("vararg", "kwarg"):
            found = getattr(arguments, field)
            setattr(arguments, field, None if found is None else _unannotated(found))
        bare.returns = None
        if bare.decorator_list:  # one is kept for its line, from which the code is counted
            bare.decorator_list = [ast.copy_location(ast.Constant(None), node.decorator_list[0])]
        if hasattr(bare, "type_params"):
            bare.type_params = []
        body: list[ast.stmt] = [bare]
    else:
        body = [ast.copy_location(ast.Expr(bare), bare)]
    for name in reversed(_classes(class_name)):
        made = ast.parse("class Body: pass").body[0]
        made.name, made.body = name, body  # type: ignore[attr-defined]
        body = [made]
    factory = ast.parse("def factory(): pass").body[0]
    factory.name = FACTORY  # type: ignore[attr-defined]
    given = () if class_name is None else ("__class__", "__classdict__")
    names = [name for name in like.co_freevars if name not in given]
    bind = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names]
    factory.body = [*bind, *body]  # type: ignore[attr-defined]
    imported = [ast.Import([ast.alias(name) for name in imports])] if imports else []
    return ast.fix_missing_locations(ast.Module([*imported, factory], []))


def _classes(class_name: str | None) -> list[str]:
    """Classes to compile a method in; the outer one hides the name of the inner from it."""
    return [] if class_name is None else [CLASS, class_name]


def _unannotated(argument: ast.arg) -> ast.arg:
    bare = copy.copy(argument)
    bare.annotation = None
    return bare


def _code_in(code: types.CodeType, name: str) -> types.CodeType:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name == name:
            return constant
    raise ValueError(f"no {name} in {code.co_name}")


def with_objects(
    code: types.CodeType,
    objects: Mapping[str, Any],
    prefix: tuple[str, str],
    constants: Mapping[Any, Any],
) -> types.CodeType:
    """``code`` with ``objects`` in place of the constants that stand for them.

    ``constants`` are the author's (see ``constants_of``), which ``is`` tells from equal ones.
    Qualified names that begin with the first of ``prefix`` begin with the second.
    """
    inner = prefix
    if code.co_varnames[: code.co_argcount] == (ITEMS,) and hasattr(code, "co_qualname"):
        local = ".<locals>."  # what conversion puts around a comprehension is in no name
        outer = code.co_qualname.rpartition(local)[0] + local
        inner = (code.co_qualname + local, _with_prefix(outer, prefix))

    def replaced(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return with_objects(constant, objects, inner, constants)
        if isinstance(constant, str):
            if constant in objects:
                return objects[constant]
            return _with_prefix(constant, prefix)
        key = _constant_key(constant)
        if key in constants:
            return constants[key]
        if isinstance(constant, tuple):
            return tuple([replaced(item) for item in constant])
        return constant

    changes: dict[str, Any] = {"co_consts": tuple([replaced(c) for c in code.co_consts])}
    if hasattr(code, "co_qualname"):  # Python 3.11
        changes["co_qualname"] = _with_prefix(code.co_qualname, prefix)
    return code.replace(**changes)


def constants_of(code: types.CodeType) -> dict[Any, Any]:
    """The constants of ``code`` and of the functions in it, by what has the compiler merge them."""
    found: dict[Any, Any] = {}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= constants_of(constant)
        else:
            found[_constant_key(constant)] = constant
    return found


def _constant_key(constant: Any) -> Any:
    return type(constant), repr(constant)  # which tells 0.0 from -0.0, and 1 from True


def _with_prefix(name: str, prefix: tuple[str, str]) -> str:
    return prefix[1] + name[len(prefix[0]) :] if name.startswith(prefix[0]) else name


def qualname_prefix(class_name: str | None, code: types.CodeType) -> str:
    """The beginning of the qualified name of rebuilt code."""
    name = code.co_name if code.co_name == "<lambda>" else FUNCTION
    return ".".join([FACTORY, "<locals>", *_classes(class_name), name])


class _Objects(ast.NodeTransformer):
    """Names that stand for objects become constants that do."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            return ast.copy_location(ast.Constant(NO_NAME + node.id), node)
        return node


def with_constants(node: Any, names: Sequence[str]) -> Any:
    """``node`` with constants in place of ``names``."""
    return _Objects(names).visit(node)


def function_like(function: Callable[..., Any], code: types.CodeType) -> types.FunctionType:
    """A function that runs ``code`` and is ``function`` in everything else."""
    assert isinstance(function, types.FunctionType)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple([cells[name] for name in code.co_freevars])
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__qualname__ = function.__qualname__
    made.__module__ = function.__module__
    made.__doc__ = function.__doc__
    made.__annotations__ = function.__annotations__
    if hasattr(function, "__type_params__"):  # Python 3.12
        made.__type_params__ = function.__type_params__
    made.__dict__ = function.__dict__  # the same dictionary: attributes are the author's state
    return made
