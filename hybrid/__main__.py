"""``python -m hybrid``: the command line where no console script is installed."""

from hybrid.cli.app import main

if __name__ == "__main__":
    main()
