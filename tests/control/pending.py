"""Tests that do not pass yet; one that does has to leave this set, which is to end empty."""

PENDING: frozenset[str] = frozenset(
    {
        "test_early_stop_lists::test_same[items_of_items_behind_the_break]",
        "test_early_stop_lists::test_same[two_loops_of_bfgs]",
        "test_order::test_same[rows_of_a_carried_value]",
    }
)
