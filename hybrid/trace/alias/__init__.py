"""Which values of a graph are one value: operands, carried values and items of lists."""
