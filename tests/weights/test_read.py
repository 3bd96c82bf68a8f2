"""load: other libraries' files, mapped pages, what becomes of them."""

import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import hybrid as hy
from hybrid.core.types import DTYPES, bfloat16, bool_
from hybrid.errors import CaptureError
from hybrid.memory import native


def bits(tensor):
    return bytes(native.view(tensor.content, tensor.nbytes))


def samples(dtype):
    values = np.arange(-6, 6).reshape(3, 4) % (2 if dtype is bool_ else 128)
    tensor = hy.asarray(values.astype(np.float32)).astype(dtype)
    return {"matrix": tensor, "number": tensor[1, 2], "none": tensor[:0], "row": tensor[2]}


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_round_trip(dtype, copy, tmp_path):
    path = tmp_path / "model.safetensors"
    given = samples(dtype)
    hy.save(path, given)
    found = hy.load(path, copy=copy)
    assert sorted(found) == sorted(given)
    for name, tensor in given.items():
        assert found[name].type is tensor.type and bits(found[name]) == bits(tensor)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not bfloat16], ids=str)
def test_files_of_the_safetensors_package(dtype, tmp_path):
    path = tmp_path / "model.safetensors"
    arrays = {name: np.array(t.numpy()) for name, t in samples(dtype).items()}
    save_file(arrays, path, metadata={"made": "elsewhere"})
    found = hy.load(path)
    assert found.metadata == {"made": "elsewhere"} and found.path == str(path)
    hy.save(path, found)
    back = load_file(path)
    for name, array in arrays.items():
        assert found[name].numpy().tobytes() == array.tobytes() == back[name].tobytes()
        assert found[name].shape == array.shape == back[name].shape


def test_what_lies_unaligned_is_copied(tmp_path):
    path = tmp_path / "model.safetensors"
    text = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
        b'"b":{"dtype":"F64","shape":[2],"data_offsets":[1,17]}}'
    )
    data = b"\x05" + np.array([1.5, -2.5]).tobytes()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    found = hy.load(path)
    assert found["a"].tolist() == [5] and (found["b"] * 2).tolist() == [3.0, -5.0]


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_pages_are_mapped_and_not_read(tmp_path):
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": np.ones((64, 1 << 18), np.float32)})  # 64 MiB
    before = resident()
    found = hy.load(path)
    cell = hy.zeros((64, 1 << 18))
    cell.assign(found["a"])
    del found
    assert resident() - before < 70 << 20  # the zeros alone are 64 MiB
    assert cell[63, 5].item() == 1.0


def test_what_is_mapped_is_written_by_nobody(tmp_path):
    """In-place updates of plans, too, go to memory of their own."""
    path = tmp_path / "model.safetensors"
    hy.save(path, {"weight": np.ones((1, 3), np.float32)})
    content = path.read_bytes()
    net = hy.nn.Linear(3, 1, bias=False)
    net.load_state_dict(path)
    optimizer = hy.optim.SGD(net.parameters(), lr=0.5)

    @hy.hybridize
    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(hy.ones((1, 3)))
    with hy.no_grad():
        net.weight[0, 0] = 7.0
    assert net.weight.tolist() == [[7.0, -0.5, -0.5]]
    assert path.read_bytes() == content and hy.load(path)["weight"].tolist() == [[1.0, 1.0, 1.0]]


def test_a_file_may_be_replaced_or_deleted_while_it_is_mapped(tmp_path):
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": hy.ones(5000)})
    first = hy.load(path)
    hy.save(path, {"a": first["a"] * 2})
    second = hy.load(path)
    path.unlink()
    assert set(first["a"].tolist()) == {1.0} and set(second["a"].tolist()) == {2.0}


def test_a_copy_is_free_of_its_file(tmp_path):
    path = tmp_path / "model.safetensors"
    hy.save(path, {"a": hy.ones(5000)})
    found = hy.load(path, copy=True)
    path.write_bytes(b"")
    assert set(found["a"].tolist()) == {1.0}


CUT_OFF = """
import os, sys
import hybrid as hy
hy.save(sys.argv[1], {"a": hy.ones(50_000)})
found = hy.load(sys.argv[1], copy=sys.argv[2] == "copy")
os.truncate(sys.argv[1], 0)
print(found["a"].numpy().sum())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse, or keep the pages")
@pytest.mark.parametrize(("how", "status"), [("copy", 0), ("mapped", -signal.SIGBUS)])
def test_a_file_that_is_cut_off_ends_the_process_as_load_says(tmp_path, how, status):
    command = [sys.executable, "-c", CUT_OFF, "model.safetensors", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert done.stdout == ("50000.0\n" if how == "copy" else "")
    assert "SIGBUS" in hy.load.__doc__ and "copy=True" in hy.load.__doc__


@pytest.mark.alone
def test_90_megabytes_load_at_once(tmp_path):
    path = tmp_path / "model.safetensors"
    net = hy.nn.Linear(4750, 4750)
    hy.save(path, net)
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        net.load_state_dict(path)
        times.append(time.perf_counter() - begun)
    assert path.stat().st_size > 90e6 and sorted(times)[2] < 0.15  # 2 ms, on a machine of its own


def test_files_are_not_read_inside(tmp_path):
    hy.save(tmp_path / "x", {"x": hy.ones(1)})
    loading = hy.hybridize(lambda x: x + hy.load(tmp_path / "x")["x"])
    with pytest.raises(CaptureError, match="load was called inside a hybridized function"):
        loading(hy.ones(1))
