"""Names are as the floor plan wants them, but for those that are known; see ``tools/names.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import names

LIST = Path(names.__file__).with_name("known_names.txt")
LONG = "\n" * names.FEWEST_LINES


def found_in(root: Path, files: dict[str, str]) -> set[str]:
    """What is found in a package of these files, but for the size of its folders."""
    for path, text in files.items():
        file = root / "hybrid" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return {str(item) for item in names.findings(root) if item.kind != "folder"}


def test_nothing_is_found_that_is_not_known() -> None:
    new = [str(item) for item in names.findings(names.ROOT) if str(item) not in names.KNOWN]
    assert not new, "\n".join(new)


def test_what_is_gone_is_no_longer_listed() -> None:
    gone = names.KNOWN - {str(item) for item in names.findings(names.ROOT)}
    assert not gone, "take from known_names.txt:\n" + "\n".join(sorted(gone))


@pytest.mark.parametrize("word", names.REPLACED)
def test_every_replaced_word_is_found_in_names(word: str) -> None:
    for name in (word, f"_{word}s", f"{word}_of", f"Some{word.title()}", f"VJP{word.title()}2"):
        assert word in names.words_of(name), name


def test_the_list_is_in_order() -> None:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(set(lines))


def test_every_exception_is_needed_and_has_a_reason() -> None:
    met = {(item.kind, key) for item in names.all_findings(names.ROOT) for key in item.keys}
    for kind, rows in names.EXCEPTIONS.items():
        for key, reason in rows.items():
            assert reason and (kind, key) in met, (kind, key)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {"ir/page.py": LONG, "nn/page.py": LONG},
            {f"hybrid/{at}/page.py: another file is called page" for at in ("ir", "nn")},
        ),
        (
            {"ir/a.py": "class Row:" + LONG, "nn/b.py": "class Row(B):" + LONG},
            {f"hybrid/{at}.py: another class is called Row" for at in ("ir/a", "nn/b")},
        ),
        (
            {"plan/kin.py": "class LateRows:\n    def told(): ...\ndef _twins():" + LONG},
            {
                "hybrid/plan/kin.py: module kin: not kin, but alias or tie",
                "hybrid/plan/kin.py: LateRows: not late, but deferred value",
                "hybrid/plan/kin.py: _twins: not twin, but alias or tie",
            },
        ),
        ({"nn/kin.py": "def latest(): ..." + LONG}, set()),  # the glossary is not about nn
        ({"plan/a.py": "def latest(): ...\ndef skin(): ..." + LONG}, set()),
        ({"ir/merged.py": LONG}, {"hybrid/ir/merged.py: merged is no noun"}),
        ({"ir/row_joining.py": LONG}, {"hybrid/ir/row_joining.py: joining is no noun"}),
        ({"ir/often.py": LONG}, {"hybrid/ir/often.py: often is no noun"}),
        ({"ir/late_names.py": LONG, "ir/printing.py": LONG}, set()),
        ({"ir/a.py": LONG[1:]}, {"hybrid/ir/a.py: fewer than 60 lines"}),
        ({"ir/__init__.py": "", "__main__.py": "", "models/lenet.py": ""}, set()),
        (
            {"trace/a.py": '# c\n"""Kept: what is kept."""' + LONG},
            {"hybrid/trace/a.py: the docstring begins with Kept:"},
        ),
        ({"trace/a.py": '"""Journal: what was kept."""' + LONG}, set()),
    ],
)
def test_findings(tmp_path: Path, files: dict[str, str], found: set[str]) -> None:
    assert found_in(tmp_path, files) == found


@pytest.mark.parametrize(
    ("count", "what"), [(4, "fewer than 5"), (5, ""), (20, ""), (21, "more than 20")]
)
def test_sizes_of_folders(tmp_path: Path, count: int, what: str) -> None:
    found_in(tmp_path, {f"ir/file{number}.py": LONG for number in range(count)})
    found = [str(item) for item in names.findings(tmp_path)]
    assert found == ([f"hybrid/ir: {what} files"] if what else [])
