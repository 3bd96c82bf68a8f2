"""Pure functions of a state that they are given: random draws, steps of optimizers."""
