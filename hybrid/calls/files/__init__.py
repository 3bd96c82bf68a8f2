"""Store plans in files, and load them in later processes: see ``lookup.py``."""
