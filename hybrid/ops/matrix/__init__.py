"""Products, factorizations and solutions of matrices; distances of vectors."""
