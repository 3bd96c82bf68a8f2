"""Plans kept in files, so that the first call in a later process finds one: see ``lookup.py``."""
