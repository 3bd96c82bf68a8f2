"""Python values of which only a run knows all: lists, dicts, subscripts, texts, walks."""
