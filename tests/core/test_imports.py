"""Optional packages: the error that tells how to get one."""

import sys

import pytest

import hybrid as hy
from hybrid.core import imports
from hybrid.errors import MissingPackageError


@pytest.mark.parametrize("name", ["save", "load"])
def test_without_the_package_the_extra_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingPackageError) as caught:
        getattr(hy, name)(tmp_path / "x", *[{}][: name == "save"])
    assert str(caught.value) == (
        f"hybrid.{name} needs the package safetensors, which is not installed\n"
        'Fix: pip install "hybrid[io]".'
    )


def test_a_package_that_is_broken_itself_says_so(tmp_path, monkeypatch):
    (tmp_path / "broken_package.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        imports.optional("broken_package", "io", "this test")
