"""Sessions: how often the statements of a construct run; and predicates of traced values."""
