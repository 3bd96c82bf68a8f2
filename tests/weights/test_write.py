"""save: the same bytes for the same state, tied weights, and all or nothing."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hybrid as hy
from hybrid.errors import ArgumentError, ArgumentTypeError, TracedValueError
from hybrid.memory import native


def bits(tensor):
    return bytes(native.view(tensor.content, tensor.nbytes))


def test_names_are_any_text(tmp_path):
    path = tmp_path / "gewichte ☃.safetensors"
    given = {"": hy.ones(1), "ü.☃": hy.zeros(2), 'a"b\n': hy.ones(3)}
    hy.save(path, given, metadata={"ü": "☃"})
    found = hy.load(path)
    assert {name: t.tolist() for name, t in found.items()} == {
        n: t.tolist() for n, t in given.items()
    }
    assert sorted(load_file(path)) == sorted(given)
    assert found.metadata == {"format": "pt", "ü": "☃"}


def test_nothing_is_a_state_too(tmp_path):
    hy.save(tmp_path / "none", {})
    assert hy.load(tmp_path / "none") == {}


def test_metadata_are_kept(tmp_path):
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": hy.ones(1)}, metadata={"epoch": "3", "format": "np"})
    found = pickle.loads(pickle.dumps(hy.load(path)))
    assert found.metadata == {"epoch": "3", "format": "np"} and found["a"].tolist() == [1.0]
    hy.save(path, found)
    assert hy.load(path).metadata == found.metadata
    hy.save(path, found, metadata={})
    assert hy.load(path).metadata == {"format": "pt"}


def test_the_same_state_gives_the_same_bytes(tmp_path):
    program = (
        "import hybrid as hy, sys; hy.save(sys.argv[1], {n: hy.ones(3) for n in 'abcdef'}, "
        "metadata={n: n for n in 'uvwxyz'})"
    )
    for name in ("first", "second"):
        command = [sys.executable, "-c", program, tmp_path / name]
        subprocess.run(command, check=True, cwd=tmp_path)  # away from a checkout
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


# Shared tensors -----------------------------------------------------------------------------------


def tied():
    net = hy.nn.Sequential(hy.nn.Linear(64, 64), hy.nn.Linear(64, 64))
    net[1].weight = net[0].weight
    return net


def test_tied_weights_are_written_once_and_come_back_under_both_names(tmp_path):
    path = tmp_path / "model.safetensors"
    net = tied()
    hy.save(path, net, metadata={"epoch": "3"})
    assert path.stat().st_size < 64 * 64 * 4 + 3000
    found = hy.load(path)
    assert sorted(found) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert found["0.weight"].content is found["1.weight"].content
    assert found.metadata == {"format": "pt", "epoch": "3"}
    other = tied()
    assert other.load_state_dict(found) == ([], [])
    assert other[1].weight is other[0].weight
    assert bits(other[0].weight) == bits(net[0].weight)
    apart = hy.nn.Sequential(hy.nn.Linear(64, 64), hy.nn.Linear(64, 64))
    apart.load_state_dict(found)
    apart[0].weight.assign(apart[0].weight * 2)
    assert bits(apart[1].weight) == bits(net[0].weight) != bits(apart[0].weight)


def test_files_that_name_tied_weights_once_load(tmp_path):
    """As ``safetensors.torch.save_model`` writes them."""
    path = tmp_path / "model.safetensors"
    net = tied()
    arrays = {name: t.numpy() for name, t in net.state_dict().items() if name != "1.weight"}
    save_file(arrays, path, metadata={"1.weight": "0.weight"})
    other = tied()
    assert other.load_state_dict(path) == ([], [])
    assert bits(other[1].weight) == bits(net[1].weight)


# Errors -------------------------------------------------------------------------------------------

NET = hy.nn.Linear(2, 1)
STATE_FIX = "\nFix: pass a module, its state_dict(), or a dict of names and tensors."
ERRORS = [
    (lambda p: hy.save(p, 3), ArgumentTypeError, "a int cannot be saved" + STATE_FIX),
    (
        lambda p: hy.save("state", "model"),
        ArgumentTypeError,
        "save got two paths, 'state' and 'model'\nFix: give a state and a path: save(state, path).",
    ),
    (
        lambda p: hy.save(NET, {}),
        ArgumentTypeError,
        "save got no path, but a Linear and a dict\n"
        "Fix: give a state and a path: save(state, path).",
    ),
    (
        lambda p: hy.save(p, {"__metadata__": hy.ones(1)}),
        ArgumentError,
        "a tensor cannot be called '__metadata__'\nFiles keep texts there.",
    ),
    (
        lambda p: hy.save(p, NET, metadata={"epoch": 3}),
        ArgumentTypeError,
        "metadata are not texts by name\nFix: give a dict of str to str.",
    ),
    (
        lambda p: hy.save(p, {"a": (t := hy.ones(1)), "b": t}, metadata={"b": "x"}),
        ArgumentError,
        "metadata cannot have the name 'b'\nIt is needed to say which tensors are the same.\n"
        "Fix: choose another name.",
    ),
    (
        lambda p: hy.save(p, {"a": np.zeros(2, np.complex64)}),
        hy.HybridError,
        "no dtype dtype('complex64')\nTensors hold bool, int8, int16, int32, int64, uint8, uint16, "
        "uint32, uint64, float16, bfloat16, float32, float64.\n"
        "Fix: convert the values to one of these first.",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_what_cannot_be_saved(call, error, text, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"as it was")
    with pytest.raises(error) as caught:
        call(path)
    assert str(caught.value) == text
    assert os.listdir(tmp_path) == [path.name] and path.read_bytes() == b"as it was"


def test_a_traced_value_is_not_saved(tmp_path):
    @hy.hybridize
    def saving(x):
        hy.save(tmp_path / "x", {"x": x * 2})
        return x

    with pytest.raises(TracedValueError, match="saving of a traced value was asked for"):
        saving(hy.ones(2))
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'"):
        hy.save(tmp_path, NET)
    with pytest.raises(
        FileNotFoundError, match=f"No such file or directory: '{tmp_path}/none/model'"
    ):
        hy.save(tmp_path / "none" / "model", NET)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_file(tmp_path):
    program = (
        "import hybrid as hy, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))\n"
        "try:\n    hy.save(sys.argv[1], {'a': hy.ones(1 << 16)})\n"
        "except OSError as error:\n    print(error.errno)\n"
    )
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": hy.ones(3)})
    content = path.read_bytes()
    command = [sys.executable, "-c", program, path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "27\n", done.stderr  # EFBIG
    assert os.listdir(tmp_path) == [path.name] and path.read_bytes() == content


def test_the_mode_of_a_file_and_a_link_to_it_are_kept(tmp_path):
    path, link = tmp_path / "model", tmp_path / "link"
    hy.save(path, NET)
    path.chmod(0o640)
    link.symlink_to(path)
    hy.save(link, {"a": hy.ones(1)})
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert list(hy.load(path)) == ["a"]


def test_both_orders(tmp_path) -> None:
    state = {"a": hy.arange(3.0)}
    hy.save(state, tmp_path / "a")
    hy.save(str(tmp_path / "b"), state)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
