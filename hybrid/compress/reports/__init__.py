"""Reports: what became of a model, and what each of its layers loses."""
