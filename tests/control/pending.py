"""Tests that do not pass yet; one that does has to leave this set, which is to end empty."""

PENDING: frozenset[str] = frozenset(
    {
        "test_order::test_same[rows_of_a_carried_value]",
        "test_rows::test_same[an_item_that_an_attribute_becomes]",
        "test_second_order::test_second_order[test_order.a_checkpointed_call_of_two_choices]",
        "test_second_order::test_second_order[test_order.a_checkpointed_call_that_uses_both]",
        "test_second_order::test_second_order[test_order.checkpointed_calls_in_a_loop]",
        "test_second_order::test_second_order[test_rows.the_stack_between_uses]",
    }
)
