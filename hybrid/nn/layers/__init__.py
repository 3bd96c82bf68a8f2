"""Layers and losses as modules: each calls functions, and keeps their arguments."""
