"""ORDER, the list of all constructs; a new one is its file and one line here."""

from __future__ import annotations

from hybrid.convert.constructs.assert_ import AssertConverter
from hybrid.convert.constructs.call import CallConverter, ResultConverter
from hybrid.convert.constructs.compare import CompareConverter
from hybrid.convert.constructs.comprehension import ComprehensionConverter
from hybrid.convert.constructs.for_ import ForConverter
from hybrid.convert.constructs.functions import (
    AsyncFunctionConverter,
    ClassConverter,
    FunctionConverter,
)
from hybrid.convert.constructs.if_ import IfConverter
from hybrid.convert.constructs.ifexp import IfExpConverter
from hybrid.convert.constructs.jumps import Jumps
from hybrid.convert.constructs.logic import LogicConverter, NotConverter
from hybrid.convert.constructs.match_ import MatchConverter
from hybrid.convert.constructs.stores import (
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
from hybrid.convert.constructs.texts import FormattedConverter, OperatorConverter
from hybrid.convert.constructs.try_ import TryConverter
from hybrid.convert.constructs.unfold import UnfoldTests
from hybrid.convert.constructs.variables import NameConverter
from hybrid.convert.constructs.while_ import WhileConverter
from hybrid.convert.constructs.with_ import WithConverter
from hybrid.convert.converter import Converter

ORDER: tuple[type[Converter], ...] = (
    TryConverter,  # rewrites whole functions, too, before the others see them
    UnfoldTests,  # and so does this
    Jumps,  # and this
    IfConverter,
    WhileConverter,
    ForConverter,
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
    ResultConverter,
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
