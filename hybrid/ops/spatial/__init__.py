"""Windows over spatial axes: convolutions, pooling, folding, interpolation."""
