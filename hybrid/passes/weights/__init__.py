"""Passes that do once what runs would repeat: prepared weights, blocks of channels."""
