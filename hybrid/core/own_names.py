"""The names that conversion adds to a function: none that an author could write."""

PREFIX = "hyb$"  # of them all
RUNTIME = f"{PREFIX}$"  # the functions of staging, which templates and texts call hyb__
RESULT = f"{PREFIX}result"  # what the function returns
VALUE = f"{PREFIX}value"  # of an expression
