"""The command line.  Nothing below imports this package, so typer and rich load with it alone."""
