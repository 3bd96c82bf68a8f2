"""Read a graph from its text: the inverse of ``printer.py``.

::

    graph     = "graph" "@" name ["<" symbol ("," ...)* ">"] body
    symbol    = word "=" number ["from" number] ["to" number]
    body      = "(" [typed] ")" "{" node* "return" [values] "}"
    node      = [typed "="] op [values] ["{" name "=" attribute ("," ...)* "}"] ["{" region+ "}"]
    region    = [name] body
    typed     = value ":" type ("," ...)*
    type      = dtype "[" [size ("," ...)*] "]"
    size      = ["-"] product (("+" | "-") product)*
    product   = factor ("*" factor)*
    factor    = number | word | "(" size [("//" | "%" | "/" | "**" ...) size] ")"
              | word ("." word)* "(" (size | dtype) ("," ...)* ")"
    attribute = number | size | string | bytes | true | false | none | dtype | type
              | "(" attribute,* ")"

Line breaks mean nothing; ``#`` begins a comment.  Attributes left out take their defaults.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from hybrid.core.size_functions import FUNCTIONS, SizeValue
from hybrid.core.size_values import SizeArray
from hybrid.core.sizes import HIGHEST, LOWEST, OpenSizes, Size
from hybrid.core.types import BY_NAME, BY_SHORT, TensorType, tensor_type
from hybrid.errors import GraphError, HybridError
from hybrid.ir.graph import Attrs, Graph, Node, Value
from hybrid.ir.op import REGISTRY, Op

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    |(?P<value>%\w+)
    |(?P<bytes>0x[0-9a-fA-F]*)
    |(?P<number>-?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf\b|nan\b))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<mark>[@(){}\[\],:=])
    |(?P<other>.)""",
    re.VERBOSE | re.ASCII,
)
# Between two sizes in brackets; the longer ones first.
_SIGNS = ("//", "**", "<<", ">>", "/", "%", "&", "|", "^")
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "//": operator.floordiv, "%": operator.mod, "/": operator.truediv, "**": operator.pow,
}  # fmt: skip
_WORDS = {"true": True, "false": False, "none": None}

Token = tuple[str, str, int]  # kind, text, offset


def parse(text: str) -> Graph:
    """The graph that ``text`` describes; GraphError says where and why it does not parse."""
    parser = _Parser(text)
    parser.expect("graph", fix='begin with "graph @name("')
    parser.expect("@")
    name = parser.name()
    if parser.skip("<"):
        parser.comma_separated(parser.symbol)
        parser.expect(">")
    graph = parser.body(name)
    if parser.token[0] != "end":
        parser.fail("the end of the text", fix="parse one graph at a time")
    return graph


class _Parser:
    """The tokens of a text and a position among them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = [
            (match.lastgroup or "", match.group(), match.start())
            for match in _TOKEN.finditer(text)
            if match.lastgroup != "space"
        ]
        # Three, for the grammar looks two tokens ahead.
        self.tokens += [("end", "", len(text.rstrip()))] * 3
        self.at = 0
        self.sizes = OpenSizes()
        self.symbols: dict[str, Size] = {}

    # Tokens ----------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def next(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def skip(self, text: str) -> bool:
        """Step over ``text`` if it comes next."""
        found = self.tokens[self.at][1] == text
        self.at += found
        return found

    def expect(self, text: str, *, fix: str = "") -> None:
        if not self.skip(text):
            self.fail(f'"{text}"', fix=fix)

    def take(self, kind: str, what: str, *, fix: str = "") -> str:
        """The text of the next token, which is a ``kind``."""
        if self.token[0] != kind:
            self.fail(what, fix=fix)
        return self.next()[1]

    def comma_separated(self, read: Callable[[], Any]) -> list[Any]:
        items = [read()]
        while self.skip(","):
            items.append(read())
        return items

    # Errors ----------------------------------------------------------------------------------

    def fail(self, expected: str, *, fix: str = "") -> NoReturn:
        kind, text, _ = self.token
        found = "the end of the text" if kind == "end" else json.dumps(text, ensure_ascii=False)
        self.error(f"expected {expected}, found {found}", fix=fix or f"write {expected} here")

    def error(self, what: str, token: Token | None = None, *, why: str = "", fix: str) -> NoReturn:
        offset = (token or self.token)[2]
        before = self.text[:offset]
        line, column = before.count("\n") + 1, offset - before.rfind("\n")
        source = self.text.split("\n")[line - 1]
        margin = " " * len(str(line))
        excerpt = f" {line} | {source}\n {margin} | {' ' * (column - 1)}^"
        why = f"{excerpt}\n{why}" if why else excerpt
        raise GraphError(f"line {line}, column {column}: {what}", why=why, fix=fix) from None

    # The grammar -----------------------------------------------------------------------------

    def name(self) -> str:
        if self.token[0] == "string":
            return self.string()
        return self.take("word", "a name")

    def string(self) -> str:
        token = self.next()
        try:
            return json.loads(token[1])
        except ValueError:
            self.error("this is no string", token, fix="write it as JSON does, in double quotes")

    def body(self, name: str) -> Graph:
        """Parameters, nodes, results; ``name`` has been read."""
        values: dict[str, Value] = {}
        self.expect("(")
        params = () if self.token[1] == ")" else self.definitions(values)
        self.expect(")")
        self.expect("{")
        nodes = []
        while not self.skip("return"):
            nodes.append(self.node(values))
        results = self.uses(values)
        if not self.skip("}"):
            expected = '"," or "}"' if results else 'a value or "}"'
            self.fail(expected, fix="end the graph after return")
        return Graph(name, tuple(params), tuple(nodes), tuple(results))

    def definitions(self, values: dict[str, Value]) -> list[Value]:
        """``%a: f32[4], ...``, each new to ``values``."""

        def definition() -> Value:
            token = self.token
            name = self.take("value", "a value such as %x")[1:]
            self.expect(":")
            value = Value(self.type(), "" if name[0].isdigit() else name)
            if values.setdefault(name, value) is not value:
                self.error(f"%{name} is defined twice", token, fix="give one another name")
            return value

        return self.comma_separated(definition)

    def uses(self, values: dict[str, Value]) -> list[Value]:
        """The values that follow, if any: a ``%name`` before a colon begins the next node."""
        if self.token[0] != "value" or self.tokens[self.at + 1][1] == ":":
            return []

        def use() -> Value:
            token = self.token
            name = self.take("value", "a value such as %x")[1:]
            if name not in values:
                close = [f"%{n}" for n in _closest(name, values)]
                self.error(
                    f"%{name} is not defined before this line",
                    token,
                    why="A graph uses its own parameters and the results of earlier nodes; "
                    "a region is a graph of its own.",
                    fix=f"write {close[0]}" if close else "define it, or make it an operand",
                )
            return values[name]

        return self.comma_separated(use)

    def node(self, values: dict[str, Value]) -> Node:
        # Results are kept apart until the node ends, for it does not see them.
        own: dict[str, Value] = {}
        first = self.token
        results: Sequence[Value] = ()
        if first[0] == "value":
            results = self.definitions(own)
            self.expect("=")
        op_token = self.token
        op = self.op()
        operands = tuple(self.uses(values))
        attrs = self.attributes(op, op_token)
        regions = self.regions()
        self.check_types(op_token, op, operands, attrs, regions, results)
        for name, value in own.items():
            if name in values:
                self.error(f"%{name} is defined twice", first, fix="give one another name")
            values[name] = value
        return Node(op=op, operands=operands, attrs=attrs, results=tuple(results), regions=regions)

    def op(self) -> Op:
        token = self.token
        name = self.take("word", 'an op or "return"')
        if name not in REGISTRY:
            self.unknown(f"there is no op {name}", token, name, REGISTRY, "use a declared op")
        return REGISTRY[name]

    def unknown(
        self, what: str, token: Token, name: str, known: Iterable[str], fix: str
    ) -> NoReturn:
        close = _closest(name, known)
        self.error(what, token, fix=f"write {close[0]}" if close else fix)

    def attributes(self, op: Op, op_token: Token) -> Attrs:
        """``{axis=0, ...}`` if it comes next, completed with the op's defaults."""
        given: dict[str, Any] = {}
        if self.token[1] == "{" and self.tokens[self.at + 2][1] == "=":
            self.next()
            self.comma_separated(lambda: self.named_attribute(op, given))
            self.expect("}")
        try:
            return op.attributes(given)
        except HybridError as error:
            self.error(error.what, op_token, why=error.why, fix=f"write it as in {{{_sketch(op)}}}")

    def named_attribute(self, op: Op, given: dict[str, Any]) -> None:
        token = self.token
        name = self.take("word", "the name of an attribute")
        if name not in op.attr_defaults:
            names = ", ".join(op.attr_defaults) or "none"
            what = f"{op.name} has no attribute {name}"
            self.unknown(what, token, name, op.attr_defaults, f"use one of its own ({names})")
        if name in given:
            self.error(f"the attribute {name} is given twice", token, fix="leave one out")
        self.expect("=")
        given[name] = self.attribute()

    def attribute(self) -> Any:
        kind, text, _ = token = self.token
        called = kind == "word" and self.tokens[self.at + 1][1] in (".", "(")
        if kind == "number" or text in ("(", "-") or text in self.symbols or called:
            found = self.open_size()
            if found is not None:
                return found
        if kind == "number":
            self.next()
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if kind == "string":
            return self.string()
        if kind == "bytes":
            self.next()
            if len(text) % 2:
                self.error("half a byte", token, fix="give two hexadecimal digits per byte")
            return bytes.fromhex(text[2:])
        if text == "(":
            self.next()
            items = []
            while not self.skip(")"):
                items.append(self.attribute())
                if self.token[1] != ")":
                    self.expect(",")
            return tuple(items)
        if text in _WORDS:
            self.next()
            return _WORDS[text]
        if text in BY_SHORT:
            return self.type() if self.tokens[self.at + 1][1] == "[" else BY_SHORT[self.next()[1]]
        if text == "<":
            self.error(
                "this attribute is a Python object, which has no text",
                why="Text holds numbers, strings, bytes, dtypes, types and tuples of them.",
                fix="build the graph with a Builder, or leave this node out",
            )
        self.fail(
            "an attribute's value",
            fix='write a number, "text", 0x00ff, true, false, none, a dtype, a type or (a, tuple)',
        )

    def type(self) -> TensorType:
        token = self.token
        word = self.take("word", "a type such as f32[8,4]")
        if word not in BY_SHORT:
            fix = f"use one of {', '.join(BY_SHORT)}"
            self.unknown(f"there is no dtype {word}", token, word, BY_SHORT, fix)
        self.expect("[", fix=f"write {word}[] for a single number")
        sizes = [] if self.token[1] == "]" else self.comma_separated(self.dimension)
        self.expect("]")
        try:
            return tensor_type(BY_SHORT[word], tuple(sizes))
        except HybridError as error:
            self.error(error.what, token, why=error.why, fix=error.fix or "make it smaller")

    # Sizes -----------------------------------------------------------------------------------

    def symbol(self) -> None:
        """``n = 37 from 1 to 512``, new to the graph."""
        token = self.token
        name = self.take("word", "the name of a size")
        if name in self.symbols:
            self.error(f"the size {name} is declared twice", token, fix="give one another name")
        self.expect("=")
        value = self.whole()
        low = self.whole() if self.skip("from") else LOWEST
        high = self.whole() if self.skip("to") else HIGHEST
        try:
            self.symbols[name] = self.sizes.symbol(name, value, low, high)
        except ValueError as error:
            self.error(str(error), token, fix="give it a value in its range")

    def whole(self) -> int:
        if not self.token[1].removeprefix("-").isdigit():
            self.fail("a number of elements")
        return int(self.next()[1])

    def dimension(self) -> Any:
        if self.symbols:
            found = self.size()
            if not isinstance(found, int):
                self.error(f"{found} is no size", fix="write an int, or an expression of symbols")
            return found
        if not self.token[1].isdigit():
            self.fail("the size of a dimension")
        return int(self.next()[1])

    def size(self) -> Any:
        """An int, or a Size of the graph's symbols."""
        total = -self.product() if self.skip("-") else self.product()
        while True:
            if self.token[0] == "number" and self.token[1][0] == "-":
                total = total + self.product()  # a number that is negative itself
            elif self.skip("+"):
                total = total + self.product()
            elif self.skip("-"):
                total = total - self.product()
            else:
                return total

    def product(self) -> Any:
        found = self.factor()
        while self.token[1] == "*" and self.tokens[self.at + 1][1] != "*":
            self.next()
            found = found * self.factor()
        return found

    def factor(self) -> Any:
        kind, text, _ = token = self.token
        if kind == "number":
            self.next()
            return int(text) if text.lstrip("-").isdigit() else float(text)
        if kind == "word" and self.tokens[self.at + 1][1] in (".", "("):
            return self.call()
        if kind == "word":
            if text not in self.symbols:
                why = "Symbols are declared before the parameters, as in graph @f<n = 37>(...)."
                known = ", ".join(self.symbols) or "none"
                self.error(f"there is no size {text}", token, why=why, fix=f"use one of: {known}")
            return self.symbols[self.next()[1]]
        if not self.skip("("):
            self.fail("the size of a dimension")
        found = self.size()
        sign = self.operator()
        if sign:
            right, token = self.size(), self.token
            if ("/" in sign or sign == "%") and right == 0:
                self.error("a division by 0", token, fix="divide by a size that is not 0")
            found = (
                _OPERATORS[sign](found, right)
                if sign in _OPERATORS
                else self.sizes.call(sign, found, right)
            )
        self.expect(")")
        return found

    def operator(self) -> str:
        """``//``, ``%`` and what else stands between two sizes in brackets, if it comes next."""
        for sign in _SIGNS:
            if all(self.tokens[self.at + i][1] == character for i, character in enumerate(sign)):
                self.at += len(sign)
                return sign
        return ""

    def call(self) -> Any:
        """A function of sizes, such as ``math.sqrt(n)``."""
        token = self.token
        name = self.next()[1]
        while self.skip("."):
            name += "." + self.take("word", "the name of a function")
        if name not in FUNCTIONS:
            self.unknown(f"there is no function {name} of sizes", token, name, FUNCTIONS,
                         "use one that a graph is printed with")  # fmt: skip
        self.expect("(")
        operands = self.comma_separated(self.operand)
        self.expect(")")
        found = self.sizes.call(name, *operands)
        if isinstance(found, SizeArray):
            found.shape = ()
        return found

    def operand(self) -> Any:
        """A size, a dtype or a truth that a function is given."""
        word = self.token[1]
        if word in BY_NAME or word in ("True", "False"):
            self.next()
            return BY_NAME.get(word, word == "True")
        return self.size()

    def open_size(self) -> SizeValue | None:
        """The Size that comes next, if one does, as an attribute or an item of one."""
        at = self.at
        try:
            found = self.size() if self.symbols else None
        except GraphError:
            found = None
        if isinstance(found, SizeValue) and self.token[1] in (",", ")", "}"):
            return found
        self.at = at
        return None

    def regions(self) -> tuple[Graph, ...]:
        if not self.skip("{"):
            return ()
        regions = []
        while not regions or not self.skip("}"):
            named = self.token[0] in ("word", "string")
            regions.append(self.body(self.name() if named else ""))
        return tuple(regions)

    def check_types(
        self,
        token: Token,
        op: Op,
        operands: tuple[Value, ...],
        attrs: Attrs,
        regions: tuple[Graph, ...],
        results: Sequence[Value],
    ) -> None:
        """The declared result types are those that the op's rule gives."""
        try:
            inferred = op.infer(tuple([v.type for v in operands]), attrs, regions)
        except HybridError as error:
            self.error(error.what, token, why=error.why, fix=error.fix or "change the operands")
        declared = tuple([v.type for v in results])
        if declared != inferred:
            given, right = (", ".join(map(str, t)) or "nothing" for t in (declared, inferred))
            self.error(
                f"{op.name} is declared to give {given}; it gives {right}",
                token,
                fix=f"declare {right}",
            )


def _sketch(op: Op) -> str:
    return ", ".join(f"{name}=..." for name in op.attr_defaults)


def _closest(name: str, known: Iterable[str]) -> list[str]:
    """The word in ``known`` that ``name`` may have been meant to be, if any."""
    from difflib import get_close_matches  # for errors only: importing it takes milliseconds

    return get_close_matches(name, known, n=1)
