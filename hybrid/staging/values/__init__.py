"""Python values of which only the run knows all: lists, dicts, subscripts, texts, walks."""
