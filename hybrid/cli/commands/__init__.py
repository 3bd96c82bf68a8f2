"""One module per command of ``hybrid``; see ``hybrid.cli.app``."""
