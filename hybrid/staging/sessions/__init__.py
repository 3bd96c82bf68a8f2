"""Sessions: what says how often the statements of a construct run, and what it asks of values."""
