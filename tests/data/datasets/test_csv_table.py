"""Reading .csv files: types, missing values, and errors that name file, line and column."""

import csv
import math

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import hybrid as hy
from hybrid.data import CsvDataset, DataLoader, read_csv
from hybrid.errors import ArgumentError, DataFileError

PEOPLE = '''name,age,height,member,note
Ada,36,1.65,true,"first, of all"
Grace,,1.7,False,
"Mary ""M""",41,NA,TRUE,"two
lines"
'''


@pytest.fixture
def write(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "data.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


def shown(column):
    return column if isinstance(column, list) else (str(column.type), column.tolist())


def test_columns_have_types(write):
    table = read_csv(write(PEOPLE), fill={"age": -1})
    assert list(table) == ["name", "age", "height", "member", "note"]
    assert shown(table["name"]) == ["Ada", "Grace", 'Mary "M"']
    assert shown(table["age"]) == ("i64[3]", [36, -1, 41])
    assert str(table["height"].type) == "f32[3]" and math.isnan(table["height"].tolist()[2])
    assert shown(table["member"]) == ("bool[3]", [True, False, True])
    assert shown(table["note"]) == ["first, of all", "", "two\nlines"]


@pytest.mark.parametrize(
    ("fields", "options", "expected"),
    [
        (["1", " 2 "], {}, ("i64[2]", [1, 2])),
        (["1", "-2.5"], {}, ("f32[2]", [1.0, -2.5])),
        (["1", "1e3"], {}, ("f32[2]", [1.0, 1000.0])),
        (["inf", "1"], {}, ("f32[2]", [math.inf, 1.0])),
        (["1_000", "2"], {}, ["1_000", "2"]),
        ([str(2**70), "2"], {}, ("f32[2]", [2.0**70, 2.0])),
        (["yes", "no"], {}, ["yes", "no"]),
        (["a", "NA"], {}, ["a", ""]),
        (["a", "NA"], {"fill": {"c": "?"}}, ["a", "?"]),
        (["a", "NA"], {"missing": ()}, ["a", "NA"]),
        (["1", "-"], {"missing": ["-"], "fill": {"c": 0}}, ("i64[2]", [1, 0])),
        (["1", "NA"], {"fill": {"c": 0.5}}, ("f32[2]", [1.0, 0.5])),
        (["1", "2"], {"dtypes": {"c": hy.uint8}}, ("u8[2]", [1, 2])),
        (["1", "2"], {"dtypes": {"c": "float64"}}, ("f64[2]", [1.0, 2.0])),
        (["1", "2"], {"dtypes": {"c": hy.bfloat16}}, ("bf16[2]", [1.0, 2.0])),
        (["1", "0"], {"dtypes": {"c": hy.bool}}, ("bool[2]", [True, False])),
        (["1", "2"], {"dtypes": {"c": str}}, ["1", "2"]),
        (["", "NA"], {}, None),
    ],
)
def test_kinds(write, fields, options, expected):
    rows = "".join(f"{field},x\n" for field in fields)
    column = read_csv(write("c,d\n" + rows), **options)["c"]
    if expected is None:
        assert str(column.type) == "f32[2]" and all(map(math.isnan, column.tolist()))
    else:
        assert shown(column) == expected


def test_other_forms_of_files(write):
    path = write("\ufeffa;b\r\n1;2\r\n\r\n3;4\r\n")
    table = read_csv(path, delimiter=";")
    assert table["a"].tolist() == [1, 3] and table["b"].tolist() == [2, 4]
    assert list(read_csv(path, delimiter=";", columns=["b"])) == ["b"]
    table = read_csv(write("1,x\n2,y"), header=False)
    assert table["0"].tolist() == [1, 2] and table["1"] == ["x", "y"]
    assert read_csv(write("n\né\n", "latin-1"), encoding="latin-1")["n"] == ["é"]
    assert read_csv(write("a,b\n"))["a"].shape == (0,)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.floats(width=32, allow_nan=False),
            st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1),
        ),
        min_size=1,
    )
)
def test_what_python_writes_is_read(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("i", "f", "s"), *rows])
    table = read_csv(path, dtypes={"s": str, "f": hy.float32}, missing=())
    assert table["i"].tolist() == [i for i, _, _ in rows]
    assert table["f"].tolist() == [f for _, f, _ in rows]
    assert table["s"] == [s for _, _, s in rows]


BAD = [  # (text, options, error)
    (
        "a,b\n1,2\n3\n",
        {},
        "{path}:3: 1 fields in this row, 2 in the first\n"
        "Fix: quote fields that hold the delimiter, or choose another delimiter.",
    ),
    (
        'a,b\n1,"x\ny"\n3,4,5\n',
        {},
        "{path}:4: 3 fields in this row, 2 in the first\n"
        "Fix: quote fields that hold the delimiter, or choose another delimiter.",
    ),
    (
        "a,age\n1,2\n3,x7\n",
        {"dtypes": {"age": hy.int64}},
        "{path}:3: column 'age' (number 2): 'x7' is no int64\n"
        "Fix: repair the field, or pass dtypes={{'age': str}}, or name it in missing.",
    ),
    (
        "a\n1.5\n",
        {"dtypes": {"a": "int32"}},
        "{path}:2: column 'a' (number 1): '1.5' is no int32\n"
        "Fix: repair the field, or pass dtypes={{'a': str}}, or name it in missing.",
    ),
    (
        "a\n255\n256\n",
        {"dtypes": {"a": "uint8"}},
        "{path}:3: column 'a' (number 1): '256' does not fit uint8\n"
        "Fix: repair the field, or pass dtypes={{'a': str}}, or name it in missing.",
    ),
    (
        "a\nmaybe\n",
        {"dtypes": {"a": hy.bool}},
        "{path}:2: column 'a' (number 1): 'maybe' is no bool\n"
        "Fix: repair the field, or pass dtypes={{'a': str}}, or name it in missing.",
    ),
    (
        "a,b\n1,2\n,4\n",
        {"dtypes": {"a": hy.int64}},
        "{path}:3: column 'a' (number 1): the field is missing, and int64 has no NaN\n"
        "Fix: pass fill={{'a': ...}}, or a float dtype.",
    ),
    ("", {}, "{path} is empty\nFix: give a file with a row at least."),
    (
        "a,b,a\n1,2,3\n",
        {},
        "{path}:1: two columns are called 'a'\n"
        "Fix: rename one, or pass header=False if the first row holds data.",
    ),
    (
        'a\n"open\n',
        {},
        "{path}:2: unexpected end of data\nFix: repair the row, or give the delimiter of the file.",
    ),
    (
        b"a\n1\n\xff\n",
        {},
        "{path}:3: invalid start byte in utf-8\nFix: give the encoding of the file.",
    ),
]


@pytest.mark.parametrize(("text", "options", "message"), BAD)
def test_bad_files(write, text, options, message):
    path = write(text)
    with pytest.raises(DataFileError) as caught:
        read_csv(path, **options)
    assert str(caught.value) == message.format(path=path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda path: read_csv(path, columns=["z"]),
            "columns names 'z', which {path} does not have\nIts columns are 'a', 'b'.",
        ),
        (
            lambda path: read_csv(path, dtypes={"z": str}),
            "dtypes names 'z', which {path} does not have\nIts columns are 'a', 'b'.",
        ),
        (
            lambda path: read_csv(path, delimiter="::"),
            "delimiter is '::'\nFix: give one character.",
        ),
        (
            lambda path: read_csv(path, missing=["1"], fill={"a": 0.5}, dtypes={"a": "int8"}),
            "fill has 0.5 for column 'a', which is int8\nFix: give a number of that dtype.",
        ),
        (
            lambda path: CsvDataset(path, target="z"),
            "there is no column 'z' in {path}\nIts columns are 'a', 'b'.",
        ),
        (
            lambda path: CsvDataset(path),
            "column 'b' of {path} is text\nFeatures are numbers.\n"
            "Fix: name the columns to use in features, or give its dtype in dtypes.",
        ),
        (
            lambda path: CsvDataset(path, features=[], target="b"),
            "no columns are left for features\nFix: name some in features.",
        ),
    ],
)
def test_bad_arguments(write, call, message):
    path = write("a,b\n1,x\n")
    with pytest.raises(ArgumentError) as caught:
        call(path)
    assert str(caught.value) == message.format(path=path)


def test_a_dataset_of_rows(write):
    path = write("x,y,kind,score\n1,2,b,0.5\n3,4,a,1.5\n5,6,b,2.5\n")
    data = CsvDataset(path, features=["x", "y"], target="kind")
    assert data.classes == ["a", "b"] and data.features == ["x", "y"]
    ((x, y),) = DataLoader(data, 3)
    assert (str(x.type), x.tolist()) == ("f32[3,2]", [[1, 2], [3, 4], [5, 6]])
    assert (str(y.type), y.tolist()) == ("i64[3]", [1, 0, 1])
    data = CsvDataset(path, target="score", columns=["y", "x", "score"])
    assert data.classes is None and data[0][0].tolist() == [2, 1] and data[0][1].item() == 0.5
    assert [t.tolist() for t in CsvDataset(path, features=["x"])[1]] == [[3.0]]
