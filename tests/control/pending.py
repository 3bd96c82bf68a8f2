"""Tests that do not pass yet; one that does has to leave this set, which is to end empty."""

PENDING: frozenset[str] = frozenset(
    {
        "test_order::test_same[rows_of_a_carried_value]",
        "test_rows::test_same[the_first_of_a_list_that_may_lose_it]",
    }
)
