"""Which parts of a line are coloured."""

from hybrid.explain.author_source import spans


def test_parts_of_lines() -> None:
    lines = ["if x == 'a':  # why", "    return 12"]
    assert spans(lines) == [
        [(0, 2, "keyword"), (8, 11, "text"), (14, 19, "comment")],
        [(4, 10, "keyword"), (11, 13, "number")],
    ]


def test_texts_over_several_lines() -> None:
    assert spans(['x = """a', "b", '  c"""']) == [
        [(4, 8, "text")],
        [(0, 1, "text")],
        [(0, 6, "text")],
    ]


def test_lines_that_are_no_python_by_themselves() -> None:
    assert spans(["f(lambda x: x,", '  "open'])[1] == []
    assert spans([]) == []
