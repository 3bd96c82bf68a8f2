"""What every other folder builds on: types, trees of values, timing, and names that come late."""
