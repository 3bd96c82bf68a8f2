"""Optional packages: imported where they are needed; an error says how to get a missing one."""

from __future__ import annotations

import importlib
from typing import Any

from hybrid.errors import MissingPackageError

NAMES = {"PIL": "pillow"}  # of packages that are imported by another


def optional(package: str, extra: str, asked: str) -> Any:
    """The module ``package``, which pyproject's ``extra`` lists; ``asked`` is what needs it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        root = package.partition(".")[0]
        if error.name not in (root, package):
            raise  # it is there, and lacks something itself
        raise MissingPackageError(
            f"{asked} needs the package {NAMES.get(root, root)}, which is not installed",
            fix=f'pip install "hybrid[{extra}]"',
        ) from None
