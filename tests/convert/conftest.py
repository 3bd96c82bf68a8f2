"""Converted code runs in these tests: what it calls is provided by staging."""

import hybrid.staging  # noqa: F401
