"""Table of the staging functions that converted code, and staging itself, call by name.

A module of a lower folder says ``hyb__.StagedIf(...)`` for what stands above it, or is needed by
few programs.
"""

from __future__ import annotations

from hybrid.convert.runtime import hyb__

_STAGING = __name__.rpartition(".")[0]
# What converted code calls, by the modules that have it.
CONVERTED_BY: dict[str, tuple[str, ...]] = {
    # Statements
    "constructs.assert_": ("checked",),
    "constructs.for_": ("for_",),
    "constructs.if_": ("if_",),
    "constructs.match_": ("match_subject", "plain_match_subject", "native_test"),
    "constructs.try_": ("catching", "handled", "refuse_again", "try_"),
    "constructs.while_": ("while_",),
    "constructs.with_": ("managed", "with_"),
    # Expressions
    "callee": ("callee", "choosing", "result", "shown"),
    "constructs.compare": ("compare", "compare_test", "equal", "unequal"),
    "constructs.logic": (
        "and_",
        "and_test",
        "clear",
        "ifexp",
        "known_truth",
        "not_",
        "or_",
        "or_test",
        "super_",
    ),
    "iteration.comprehension": ("each", "generated", "filtered_item", "list_comprehension"),
    "iteration.generators": ("joined", "united"),
    "sessions.views": ("look",),
    "values.subscripts": ("key",),
    "values.texts": ("template", "text"),
    # Variables and places
    "constructs.loads": ("indexed", "keyed", "offered", "spread", "taken"),
    "constructs.stores": (
        "attribute",
        "cell",
        "content",
        "global_",
        "indexed_item",
        "item",
        "items",
        "joined_in_place",
        "lost",
    ),
    "effects.cached_properties": ("decorator",),
    "effects.run_time_names": ("namespace",),
    "sessions.variables": ("load", "peek"),
}  # fmt: skip
# What staging itself calls, once a value is traced.
STAGING_BY: dict[str, tuple[str, ...]] = {
    "effects.library_effects": ("gone_over", "refusing", "stored_in"),
    "effects.log_calls": ("log_override",),
    "iteration.folds": ("collected", "decided", "extreme", "part_of"),
    "iteration.generators": ("Generated",),
    "iteration.list_sum": ("sum_of",),
    "library.builtins": ("override_of",),
    "loops.for_node": ("staged_for",),
    "loops.open_rest": ("StagedRest",),
    "loops.while_node": ("StagedWhile",),
    "nodes.choice": ("Choice",),
    "nodes.if_node": ("StagedIf",),
    "nodes.try_node": ("StagedTry",),
    "nodes.with_node": ("StagedWith",),
    "values.dicts": ("DictView",),
    "values.lists": ("ListView",),
}

CONVERTED = frozenset(name for names in CONVERTED_BY.values() for name in names)

for _functions in (CONVERTED_BY, STAGING_BY):
    hyb__.provide({f"{_STAGING}.{module}": names for module, names in _functions.items()})
