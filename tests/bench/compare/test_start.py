"""Where a process runs: on as many cores as it has threads, while there are so many."""

from pathlib import Path

from hybrid.bench.compare.start import by_core


def test_one_thread_of_each_core_comes_first(tmp_path: Path) -> None:
    for number, siblings in enumerate(("0-1", "0-1", "2-3", "2-3")):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert by_core({3, 2, 1, 0}, tmp_path) == [0, 2, 1, 3]
    assert by_core({3, 1}, tmp_path) == [1, 3]
    assert by_core({5, 4, 0}, tmp_path) == [0, 4, 5]  # of two of them nothing is told
