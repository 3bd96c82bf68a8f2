"""ORDER: all constructs; a new one is its file, with both halves, and one line here."""

from __future__ import annotations

from hybrid.convert.assert_ import AssertConverter
from hybrid.convert.call import CallConverter, HandedConverter
from hybrid.convert.compare import CompareConverter
from hybrid.convert.comprehension import ComprehensionConverter
from hybrid.convert.converter import Converter
from hybrid.convert.for_ import ForConverter
from hybrid.convert.functions import AsyncFunctionConverter, ClassConverter, FunctionConverter
from hybrid.convert.if_ import IfConverter
from hybrid.convert.ifexp import IfExpConverter
from hybrid.convert.jumps import Jumps
from hybrid.convert.logic import LogicConverter, NotConverter
from hybrid.convert.match_ import MatchConverter
from hybrid.convert.names import NameConverter
from hybrid.convert.stores import (
    AttributeConverter,
    AugmentedConverter,
    BindingConverter,
    DeleteConverter,
    DisplayConverter,
    KeywordConverter,
    StarredConverter,
    SubscriptConverter,
    UnpackConverter,
)
from hybrid.convert.texts import FormattedConverter, OperatorConverter
from hybrid.convert.try_ import TryConverter
from hybrid.convert.unfold import Unfold
from hybrid.convert.while_ import WhileConverter
from hybrid.convert.with_ import WithConverter

ORDER: tuple[type[Converter], ...] = (
    Unfold,  # rewrites whole functions, before the others see them
    Jumps,  # and so does this
    IfConverter,
    WhileConverter,
    ForConverter,
    TryConverter,
    WithConverter,
    MatchConverter,
    AssertConverter,
    UnpackConverter,
    AugmentedConverter,
    BindingConverter,
    DeleteConverter,
    FunctionConverter,
    AsyncFunctionConverter,
    ClassConverter,
    LogicConverter,
    NotConverter,
    CompareConverter,
    IfExpConverter,
    CallConverter,
    HandedConverter,
    ComprehensionConverter,
    AttributeConverter,
    SubscriptConverter,
    DisplayConverter,
    StarredConverter,
    FormattedConverter,
    KeywordConverter,
    OperatorConverter,
    NameConverter,
)
