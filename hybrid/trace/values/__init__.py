"""Python values of which only a run knows all: lists, texts, optional and deferred values."""
