"""Headers of files that break the format: each rule, its full message, and nothing allocated."""

import json
import os
import re
import resource
import stat
import threading

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import CheckpointError

AGAIN = "\nFix: the file is damaged or cut off: copy or write it again."


def tensor(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


def file_bytes(header, data=b"", length=None):
    """A file with ``header`` (its JSON, or a dict) that says its header has ``length`` bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


GOOD = file_bytes({"a": tensor()}, bytes(8))
DTYPES = "Tensors hold BOOL, BF16, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64."
CASES = {  # name: (the file, what its error says after the file's name)
    "empty": (b"", "it is empty" + AGAIN),
    "no length": (b"\x01\x00", "it has 2 bytes\nThe length of the header alone takes 8." + AGAIN),
    "truncated header": (GOOD[:30], "its header has 61 bytes, of which 22 are there" + AGAIN),
    "truncated data": (
        GOOD[:-1],
        "tensor 'a' lies at 0 to 8, outside of the data\nThere are 7 bytes of data." + AGAIN,
    ),
    "overflowing length": (
        file_bytes({}, b"", 2**64 - 1),
        "its header would have 18446744073709551615 bytes\nHeaders have at most 100000000: these "
        "8 bytes are something else." + AGAIN,
    ),
    "a zip": (
        b"PK\x03\x04" + bytes(60),
        "its header has 67324752 bytes, of which 56 are there\nFix: it looks like a zip archive, "
        "as torch.save and numpy.savez write: convert it first.",
    ),
    "a pickle": (
        b"\x80\x04\x95\x10\x00\x00\x00\x01}",
        "its header would have 72057594316129408 bytes\nHeaders have at most 100000000: these 8 "
        "bytes are something else.\nFix: it looks like a pickle: convert it to safetensors where "
        "it can be trusted.",
    ),
    "an array": (
        b"\x93NUMPY\x01\x00" + bytes(60),
        "its header would have 379676406402707 bytes\nHeaders have at most 100000000: these 8 "
        "bytes are something else.\nFix: it is a .npy file: read it with numpy.load.",
    ),
    "no object": (
        file_bytes(b"[1, 2]"),
        "its header begins with b'[1, 2]'\nIt must be a JSON object." + AGAIN,
    ),
    "no header": (file_bytes(b""), "its header begins with b''\nIt must be a JSON object." + AGAIN),
    "no JSON": (
        file_bytes(b'{"a": }'),
        "its header is not JSON: Expecting value: line 1 column 7 (char 6)" + AGAIN,
    ),
    "no UTF-8": (
        file_bytes(b'{"\xff": 1}'),
        "its header is not JSON: 'utf-8' codec can't decode byte 0xff in position 2: invalid "
        "start byte" + AGAIN,
    ),
    "no number": (
        file_bytes(b'{"a": NaN}'),
        "its header is not JSON: NaN is no number of JSON" + AGAIN,
    ),
    "deep": (
        file_bytes(b'{"a": ' + b"[" * 100_000),
        "its header is nested too deeply" + AGAIN,
    ),
    "more JSON": (
        file_bytes(b"{} {}"),
        "its header is not JSON: Extra data: line 1 column 4 (char 3)" + AGAIN,
    ),
    "duplicate keys": (
        file_bytes(
            b'{"b": {}, "a": %s, "a": %s}' % ((json.dumps(tensor()).encode(),) * 2), bytes(8)
        ),
        "its header has the key 'a' twice" + AGAIN,
    ),
    "duplicate fields": (
        file_bytes(b'{"a": {"dtype": "F32", "dtype": "I32"}}'),
        "its header has the key 'dtype' twice" + AGAIN,
    ),
    "metadata": (
        file_bytes({"__metadata__": {"epoch": 3}}),
        "its __metadata__ is not an object of texts" + AGAIN,
    ),
    "shared": (
        file_bytes({"__metadata__": {"hybrid.shared": '{"b": "nobody"}'}}),
        "its text 'hybrid.shared' does not give other names of its tensors" + AGAIN,
    ),
    "shared twice": (
        file_bytes({"__metadata__": {"hybrid.shared": '{"a": "a"}'}, "a": tensor()}, bytes(8)),
        "its text 'hybrid.shared' does not give other names of its tensors" + AGAIN,
    ),
    "shared list": (
        file_bytes({"__metadata__": {"hybrid.shared": "[]"}}),
        "its text 'hybrid.shared' does not give other names of its tensors" + AGAIN,
    ),
    "no description": (
        file_bytes({"a": 1}),
        "tensor 'a' is not described by dtype, shape and data_offsets, and nothing else" + AGAIN,
    ),
    "more description": (
        file_bytes({"a": tensor(strides=[1])}, bytes(8)),
        "tensor 'a' is not described by dtype, shape and data_offsets, and nothing else" + AGAIN,
    ),
    "dtype": (
        file_bytes({"a": tensor("F8_E4M3", offsets=(0, 2))}, bytes(2)),
        f"tensor 'a' has dtype 'F8_E4M3'\n{DTYPES}\nFix: convert it where the file was made.",
    ),
    "dtype of another kind": (
        file_bytes({"a": tensor(["F32"])}, bytes(8)),
        f"tensor 'a' has dtype ['F32']\n{DTYPES}\nFix: convert it where the file was made.",
    ),
    "negative shape": (
        file_bytes({"a": tensor(shape=(-1, -2))}, bytes(8)),
        "tensor 'a' has shape [-1, -2]\nA shape is a list of ints >= 0." + AGAIN,
    ),
    "shape of a bool": (
        file_bytes({"a": tensor(shape=(True, 2))}, bytes(8)),
        "tensor 'a' has shape [True, 2]\nA shape is a list of ints >= 0." + AGAIN,
    ),
    "too many dimensions": (
        file_bytes({"a": tensor(shape=(1,) * 33, offsets=(0, 4))}, bytes(4)),
        "tensor 'a' cannot be held: a tensor of 33 dimensions was asked for\nTensors have at most "
        "32 dimensions." + AGAIN,
    ),
    "overflowing shape": (
        file_bytes({"a": tensor(shape=(2**62, 0, 4), offsets=(0, 0))}),
        "tensor 'a' cannot be held: shape [4611686018427387904, 0, 4] of float32 is too large\n"
        "A tensor holds fewer than 4611686018427387904 bytes." + AGAIN,
    ),
    "offsets": (
        file_bytes({"a": tensor(offsets=(0, 8, 9))}, bytes(8)),
        "tensor 'a' has data_offsets [0, 8, 9]\nThey are two ints >= 0." + AGAIN,
    ),
    "negative offsets": (
        file_bytes({"a": tensor(offsets=(-8, 0))}, bytes(8)),
        "tensor 'a' has data_offsets [-8, 0]\nThey are two ints >= 0." + AGAIN,
    ),
    "offsets the wrong way": (
        file_bytes({"a": tensor(offsets=(8, 0))}, bytes(8)),
        "tensor 'a' lies at 8 to 0, outside of the data\nThere are 8 bytes of data." + AGAIN,
    ),
    "offsets out of range": (
        file_bytes({"a": tensor(offsets=(2**63, 2**63 + 8))}, bytes(8)),
        "tensor 'a' lies at 9223372036854775808 to 9223372036854775816, outside of the data\n"
        "There are 8 bytes of data." + AGAIN,
    ),
    "wrong size": (
        file_bytes({"a": tensor(shape=(3,))}, bytes(8)),
        "tensor 'a' is f32[3], which takes 12 bytes, and has 8\nIts shape, its dtype and its "
        "data_offsets disagree." + AGAIN,
    ),
    "overlap": (
        file_bytes({"a": tensor(), "b": tensor(offsets=(4, 12))}, bytes(12)),
        "tensor 'b' begins at 4, inside of tensor 'a'\nThat one ends at 8; tensors do not overlap."
        + AGAIN,
    ),
    "the same place": (
        file_bytes({"a": tensor(), "b": tensor()}, bytes(8)),
        "tensor 'b' begins at 0, inside of tensor 'a'\nThat one ends at 8; tensors do not overlap."
        + AGAIN,
    ),
    "gap": (
        file_bytes({"a": tensor(), "b": tensor(offsets=(9, 17))}, bytes(17)),
        "nothing is said of its data at 8 to 9, before 'b'\nTensors lie side by side." + AGAIN,
    ),
    "more data": (
        file_bytes({"a": tensor()}, bytes(11)),
        "nothing is said of its last 3 bytes" + AGAIN,
    ),
    "what the package refuses": (
        file_bytes(b'{"\\ud800": %s}' % json.dumps(tensor()).encode(), bytes(8)),
        "Error while deserializing header: invalid JSON in header: unexpected end of hex escape "
        "at line 1 column 9",
    ),
    "bool": (
        file_bytes({"a": tensor("BOOL", (3,), (0, 3))}, b"\x00\x01\x07"),
        "tensor 'a' has a byte 7\nBytes of a BOOL are 0 or 1.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_the_format_is_told(name, tmp_path):
    content, expected = CASES[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    net = hy.nn.Linear(2, 2)
    before = {key: t.tolist() for key, t in net.state_dict().items()}
    for load in (hy.load, lambda p: hy.load(p, copy=True), net.load_state_dict):
        with pytest.raises(CheckpointError) as caught:
            load(path)
        text = f"{path} is no safetensors file that can be loaded: {expected}"
        assert str(caught.value) == text
    assert {key: t.tolist() for key, t in net.state_dict().items()} == before


def test_the_cases_begin_from_a_good_file(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD)
    assert hy.load(path)["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_is_told_or_harmless(seed, tmp_path):
    """Bytes of a header changed at random: an error that names the file, or tensors of it."""
    random = np.random.RandomState(seed)
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": np.ones((2, 3), np.float32), "b": np.arange(5)}, metadata={"k": "v"})
    content = path.read_bytes()
    told = 0
    for _ in range(60):
        damaged = bytearray(content)
        for at in random.randint(0, len(content), random.randint(1, 4)):
            damaged[at] = random.randint(256)
        path.write_bytes(damaged[: random.randint(len(content) // 2, len(content) + 1)])
        try:
            tensors = hy.load(path)
        except CheckpointError as error:
            assert str(path) in str(error)
            told += 1
        else:
            assert sum(t.nbytes for t in tensors.values()) <= len(content)
            assert all(isinstance(t.tolist(), list | int | float) for t in tensors.values())
    assert told


def test_no_memory_is_asked_for_before_the_length_is_checked(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(file_bytes(b"{" + b" " * 1000, length=99_999_999))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="of which 1001 are there"):
        hy.load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


# What is no file ----------------------------------------------------------------------------------


def test_a_directory(tmp_path):
    with pytest.raises(IsADirectoryError, match=re.escape(f"Is a directory: '{tmp_path}'")):
        hy.load(tmp_path)


def test_no_file(tmp_path):
    path = tmp_path / "none"
    with pytest.raises(FileNotFoundError, match=re.escape(f"No such file or directory: '{path}'")):
        hy.load(path)


def test_a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(GOOD)
    path.chmod(0)
    descriptor = os.open(tmp_path, os.O_RDONLY)  # another user cannot come here by its path
    with pytest.raises(PermissionError, match=r"Permission denied: '.*model\.safetensors'"):
        if os.geteuid():
            hy.load(path)
        else:
            os.fchmod(descriptor, stat.S_IRWXU | stat.S_IRWXO)
            os.seteuid(65534)
            try:
                hy.load(f"/proc/self/fd/{descriptor}/model.safetensors")
            finally:
                os.seteuid(0)
    os.close(descriptor)


def test_a_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    errors = []

    def load():
        try:
            hy.load(path)
        except OSError as error:
            errors.append(str(error))

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(20)
    assert errors == [f"{path} is no regular file"]
