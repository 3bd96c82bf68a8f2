"""The same elements in another shape, joined or repeated; constants and ranges."""
