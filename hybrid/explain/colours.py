"""Which parts of a line of Python are keywords, texts, numbers and comments."""

from __future__ import annotations

import io
import keyword
import token
import tokenize
from collections.abc import Sequence

Span = tuple[int, int, str]  # from column, to column, kind


def spans(lines: Sequence[str]) -> list[list[Span]]:
    """For each line its coloured parts; none at all where the lines do not parse by themselves."""
    found: list[list[Span]] = [[] for _ in lines]
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO("\n".join([*lines, ""])).readline))
    except (tokenize.TokenError, SyntaxError):
        return found
    for item in tokens:
        kind = _kind(item)
        if kind:
            (first, start), (last, end) = item.start, item.end
            for row in range(first - 1, last):
                begin = start if row == first - 1 else 0
                found[row].append((begin, end if row == last - 1 else len(lines[row]), kind))
    return found


def _kind(item: tokenize.TokenInfo) -> str:
    if item.type == token.NAME and keyword.iskeyword(item.string):
        return "keyword"
    if item.type == token.COMMENT:
        return "comment"
    if item.type == token.NUMBER:
        return "number"
    return "text" if item.type == token.STRING or _is_f_string(item.type) else ""


def _is_f_string(kind: int) -> bool:
    return token.tok_name[kind].startswith("FSTRING")  # since Python 3.12
