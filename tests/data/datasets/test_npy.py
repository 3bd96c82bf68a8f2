"""Reading .npy files: mapped, of any dtype, and what is wrong with a file."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import hybrid as hy
from hybrid.data import DataLoader, NpyDataset, read_npy
from hybrid.errors import DataFileError, ShapeError

X = np.arange(60, dtype=np.float32).reshape(20, 3)
Y = np.arange(20)


def mapped(path):
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", ">f8"])
@pytest.mark.parametrize("shape", [(5, 3), (4,), (0, 2), ()])
@pytest.mark.parametrize("mmap", [True, False])
def test_what_was_saved_is_read(tmp_path, dtype, shape, mmap):
    array = (np.arange(np.prod(shape, dtype=int)) % 3).reshape(shape).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    tensor = read_npy(tmp_path / "a.npy", mmap=mmap)
    assert tensor.shape == shape and tensor.dtype.name == np.dtype(dtype).name
    assert tensor.tolist() == array.tolist()


def test_a_file_is_mapped_and_not_written_to(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, X)
    before = path.read_bytes()
    tensor = read_npy(path)
    assert mapped(path)
    tensor += 1
    tensor[0] = 7.0
    assert tensor.tolist()[1] == [4.0, 5.0, 6.0] and path.read_bytes() == before
    cell = read_npy(path)
    hy.hybridize(lambda: cell.assign(cell * 2))()
    assert cell.tolist() == (X * 2).tolist() and path.read_bytes() == before


def test_fortran_order(tmp_path):
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    assert read_npy(tmp_path / "a.npy").tolist() == X.tolist()


@pytest.mark.parametrize("options", [{}, {"workers": 1, "worker_kind": "process"}])
def test_a_dataset_of_files(tmp_path, options):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    data = NpyDataset(tmp_path / "x.npy", tmp_path / "y.npy")
    assert len(data) == 20 and data[3][0].tolist() == X[3].tolist()
    assert len(pickle.dumps(data)) < 600, "the paths travel, not the data"
    for x, y in DataLoader(data, 8, shuffle=True, **options):
        assert x.tolist() == X[y.numpy()].tolist()


def cut(path, array):
    np.save(path, array)
    path.write_bytes(path.read_bytes()[:-20])


def headed(path, header):
    text = header.ljust(117).encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(12))


def archive(path, array):
    with open(path, "wb") as file:
        np.savez(file, array)


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (cut, "{path} cannot be read as a .npy file\nmmap length is greater than file size.\n"),
        (
            lambda path, array: path.write_bytes(b"\x93NUMPY\x01"),
            "{path} cannot be read as a .npy file\n",
        ),
        (lambda path, array: path.write_bytes(b""), "{path} cannot be read as a .npy file\n"),
        (lambda path, array: path.write_text("1,2"), "{path} cannot be read as a .npy file\n"),
        (
            lambda path, array: np.save(path, np.array([{}]), allow_pickle=True),
            "{path} cannot be read as a .npy file\n",
        ),
        (  # what NumPy takes for an archive
            lambda path, array: path.write_bytes(b"PK\x03\x04" + bytes(60)),
            "{path} cannot be read as a .npy file\nIt begins like an archive, and is none.\n"
            "Fix: write it with numpy.save.",
        ),
        (  # a header in which a bracket is open
            lambda path, array: headed(path, "{'descr': '<f4', 'shape': (3, "),
            "{path} cannot be read as a .npy file\n",
        ),
        (
            lambda path, array: headed(path, "-" * 9000),
            "{path} cannot be read as a .npy file\n",
        ),
        (  # of more than there is memory for
            lambda path, array: headed(
                path, "{'descr': '<f4', 'fortran_order': False, 'shape': (10**15,), }"
            ),
            "{path} cannot be read as a .npy file\n",
        ),
        (
            lambda path, array: headed(
                path, f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**15},), }}"
            ),
            "{path} cannot be read as a .npy file\nmmap length is greater than file size.\n",
        ),
        (archive, "{path} is a .npz file\n"),
        (
            lambda path, array: np.save(path, array.astype(complex)),
            "{path} holds complex128\nNo tensor does.\nFix: convert it with NumPy.",
        ),
    ],
)
def test_bad_files(tmp_path, write, text):
    path = tmp_path / "a.npy"
    write(path, X)
    with pytest.raises(DataFileError) as caught:
        read_npy(path)
    assert str(caught.value).startswith(text.format(path=path))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npy"):
        read_npy(tmp_path / "none.npy")
    np.save(tmp_path / "a.npy", np.array(1.0))
    with pytest.raises(ShapeError, match="Each tensor needs an axis of samples"):
        NpyDataset(tmp_path / "a.npy")
