"""ORDER: all constructs; a new one is its file, with both halves, and one line here."""

from __future__ import annotations

from hybrid.convert.converter import Converter
from hybrid.convert.for_ import ForConverter
from hybrid.convert.functions import AsyncFunctionConverter, ClassConverter, FunctionConverter
from hybrid.convert.if_ import IfConverter
from hybrid.convert.jumps import Jumps
from hybrid.convert.match_ import MatchConverter
from hybrid.convert.names import NameConverter
from hybrid.convert.while_ import WhileConverter

ORDER: tuple[type[Converter], ...] = (
    Jumps,  # rewrites whole functions, before the others see them
    IfConverter,
    WhileConverter,
    ForConverter,
    MatchConverter,
    FunctionConverter,
    AsyncFunctionConverter,
    ClassConverter,
    NameConverter,
)
