"""Files are written whole, and only where files may be: all writers, at all kinds of places."""

from __future__ import annotations

import ast
import fcntl
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import hybrid as hy
from hybrid import distributed as dist
from hybrid.bench import tuning
from hybrid.calls.files import store
from hybrid.cli.app import build
from hybrid.cli.commands.bench import write_json
from hybrid.cli.commands.library import copy_whole
from hybrid.core.output_file import is_regular, require_writable, whole_file, write_text
from hybrid.errors import OnnxError
from hybrid.jobs.rank_record import RankRecord
from hybrid.programs.signatures import sign
from hybrid.simulation.network import ASSUMED, write_levels

PACKAGE = Path(hy.__file__).parent
HYBRID_RUN = PACKAGE / "bin" / "hybrid-run"
X = hy.arange(3.0)


class Given(NamedTuple):
    """What is to be written: a program, a model, an array and a key in files."""

    program: Path
    onnx: Path
    array: Path
    key: Path


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    folder = tmp_path_factory.mktemp("given")
    found = Given(*(folder / name for name in ("m.hyb", "m.onnx", "x.npy", "key.pem")))
    hy.export(hy.exp, found.program, X)
    hy.onnx.export(hy.exp, found.onnx, X)
    np.save(found.array, X.numpy())
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", found.key], check=True,
        capture_output=True,
    )  # fmt: skip
    return found


def command(*arguments: object) -> None:
    """A command of ``hybrid``; what it refuses is an OSError, as of a function."""
    done = CliRunner().invoke(build(), [*map(str, arguments)])
    if done.exit_code:
        raise OSError(done.stderr)


def in_c(*arguments: object) -> None:
    done = subprocess.run(
        [str(HYBRID_RUN), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr)


def trained(path: Path) -> None:
    network = hy.nn.Linear(2, 1)
    optimizer = hy.optim.SGD(network.parameters(), 0.1)
    hy.train.Model(network, hy.nn.MSELoss(), optimizer).save(path)


def profiled(path: Path) -> None:
    with hy.profile() as found:
        hy.exp(X)
    found.save(path)


def signed(given: Given, path: Path) -> None:
    path.with_suffix("").write_bytes(given.program.read_bytes())
    sign(path.with_suffix(""), given.key)


def recorded(path: Path) -> None:
    RankRecord().write(path, 0, 1)


def constant() -> hy.nn.Module:
    model = hy.nn.Linear(32, 32, bias=False)
    model.weight.assign(hy.ones((32, 32)))
    return model


# By name: the end of the path, and what writes there.
WRITERS: dict[str, tuple[str, Callable[[Given, Path], Any]]] = {
    "whole_file": ("", lambda _, path: write_text(path, "new")),
    "save": (".safetensors", lambda _, path: hy.save({"x": X}, path)),
    "job": (".safetensors", lambda _, path: dist.save(path, x=X)),
    "model": (".safetensors", lambda _, path: trained(path)),
    "compress": (".safetensors", lambda _, path: hy.compress.save(hy.nn.Linear(2, 2), path)),
    "export": (".hyb", lambda _, path: hy.export(hy.exp, path, X)),
    "program": (".hyb", lambda given, path: hy.load_exported(given.program).save(path)),
    "signature": (".sig", signed),
    "onnx": (".onnx", lambda _, path: hy.onnx.export(hy.exp, path, X)),
    "onnx weights": (
        ".onnx.d4787f41c1e6078b.data",  # by what they hold
        lambda _, path: hy.onnx.export(
            constant(), path.with_name("m.onnx"), hy.ones((1, 32)), external_data=True
        ),
    ),
    "trace": (".json", lambda _, path: profiled(path)),
    "record": (".json", lambda _, path: recorded(path)),
    "levels": (".json", lambda _, path: write_levels(path, ASSUMED)),
    "tuning": ("", lambda _, path: tuning.write(path, {"slice_bytes": 1})),
    "graph": (".html", lambda _, path: hy.hybridize(hy.exp).graph(X).show(path)),
    "explanation": (".html", lambda _, path: hy.hybridize(hy.exp).explain(X).html(path)),
    "bench": (".json", lambda _, path: write_json(path, {})),
    "library": (".so", lambda given, path: copy_whole(given.program, path)),
    "hybrid graph": ("", lambda _, path: command("graph", "hybrid:exp", "-i", "f32[]", "-o", path)),
    "hybrid export": (
        "", lambda _, path: command("export", "hybrid:exp", "-i", "f32[3]", "-o", path)
    ),
    "hybrid onnx import": (
        ".py", lambda given, path: command("onnx", "import", given.onnx, "-o", path)
    ),
    "hybrid onnx export": (
        ".onnx", lambda _, path: command("onnx", "export", "hybrid:exp", "-i", "f32[3]", "-o", path)
    ),
    "hybrid run": (
        ".npy",
        lambda given, path: command("run", given.program, "-i", given.array, "-o", path),
    ),
    "hybrid run --save": (
        ".hyb",
        lambda given, path: command("run", given.program, "-i", given.array, "--save", path),
    ),
    "hybrid-run": (
        ".npy", lambda given, path: in_c(given.program, "-i", given.array, "-o", path)
    ),
    "hybrid-run --save": (
        ".hyb", lambda given, path: in_c(given.program, "-i", given.array, "--save", path)
    ),
}  # fmt: skip


def write(writer: str, given: Given, path: Path) -> None:
    WRITERS[writer][1](given, path)


@pytest.fixture(params=WRITERS)
def writer(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(writer: str, tmp_path: Path) -> Path:
    """Where it is to write."""
    return tmp_path / ("m" + WRITERS[writer][0])


def left(path: Path) -> set[str]:
    """What is beside ``path`` that has not been finished."""
    return {item.name for item in path.parent.iterdir() if item.name.endswith(".tmp")}


def test_links_and_permissions_are_kept(writer: str, path: Path, given: Given) -> None:
    folder = path.parent / "elsewhere"
    folder.mkdir()
    target, inner = folder / "target", folder / "inner"
    target.write_text("old")
    target.chmod(0o604)
    inner.symlink_to("target")
    path.symlink_to("elsewhere/inner")
    write(writer, given, path)
    assert path.is_symlink() and inner.is_symlink() and not target.is_symlink()
    assert target.read_bytes() != b"old" and stat.S_IMODE(target.stat().st_mode) == 0o604
    target.unlink()  # the link leads to nothing now
    write(writer, given, path)
    assert path.is_symlink() and inner.is_symlink() and target.stat().st_size > 0
    assert not left(path) | left(target)


def special_files(path: Path) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Make ``path`` each of what is no regular file: what it is called, and whether it is kept."""
    path.mkdir()
    yield "(?i)is a directory", path.is_dir
    path.rmdir()
    os.mkfifo(path)
    yield "it is a FIFO, not a regular file", path.is_fifo
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        before = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)
        yield "it is a socket, not a regular file", path.is_socket
    path.unlink()
    first, second = pty.openpty()
    path.symlink_to(os.ttyname(second))
    yield "it is a device, not a regular file", path.is_char_device
    os.close(first)
    os.close(second)
    path.unlink()
    path.symlink_to(path.name)
    yield "Too many levels of symbolic links", path.is_symlink


def test_what_is_no_regular_file_is_refused(writer: str, path: Path, given: Given) -> None:
    for text, is_kept in special_files(path):
        if writer.startswith("hybrid-run") and "regular" in text:
            text = "it is no regular file"
        with pytest.raises((OSError, hy.HybridError), match=text) as caught:
            write(writer, given, path)
        assert path.name in str(caught.value) and is_kept() and not left(path), text


def test_what_was_left_is_removed(writer: str, path: Path, given: Given) -> None:
    """But no file that a process holds, nor one of another name, nor what is no file."""
    name = path.name
    gone, held = path.with_name(f"{name}.0123abcd.tmp"), path.with_name(f"{name}.fedcba98.tmp")
    others = [f"{name}x.0123abcd.tmp", f"{name}.0123abc.tmp", f"{name}.0123ABCD.tmp"]
    kept = [held, *(path.with_name(other) for other in others)]
    for each in (gone, *kept):
        each.write_text("half")
    odd = path.with_name(f"{name}.00000000.tmp")
    odd.symlink_to(gone)
    with held.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        write(writer, given, path)
    assert left(path) == {each.name for each in kept} | {odd.name}


def test_a_folder_that_is_not_there(writer: str, path: Path, given: Given) -> None:
    nowhere = path.parent / "none" / path.name
    if writer in ("tuning", "signature"):  # which makes it; whose file is there
        return
    with pytest.raises((OSError, hy.HybridError), match="No such file or directory"):
        write(writer, given, nowhere)


# What the one function does -----------------------------------------------------------------------


def test_a_killed_writer(tmp_path: Path) -> None:
    """Its file stays as it was, and what it has left goes at the next write, in C and in Python."""
    path = tmp_path / "m"
    path.write_text("old")
    program = (
        "import os, signal, sys\nfrom hybrid.core.output_file import whole_file\n"
        "with whole_file(sys.argv[1]) as file:\n"
        "    file.write(b'half')\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, path], check=False, cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old" and len(left(path)) == 1
    write_text(path, "new")
    assert path.read_text() == "new" and not left(path)


def test_writers_at_one_time(tmp_path: Path) -> None:
    """Nobody takes the file of another away; whoever ends last has the name."""
    path = tmp_path / "m"
    with whole_file(path) as first, whole_file(path) as second:
        require_writable(path)
        assert len(left(path)) == 2
        first.write(b"first")
        second.write(b"second")
    assert path.read_text() == "first" and not left(path)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_what_was_there(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "m"
    for before in ([], ["m"]):
        with pytest.raises(error), whole_file(path) as file:
            file.write(b"half")
            raise error
        assert os.listdir(tmp_path) == before
        path.write_text("old")
    assert path.read_text() == "old"


def test_errors_name_the_path(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with pytest.raises(OSError, match=rf"No space left on device: '{path}'$"), whole_file(path):
        raise OSError(28, "No space left on device")
    with pytest.raises(FileNotFoundError, match=r"'gone'$"), whole_file(path):
        Path("gone").read_bytes()
    with pytest.raises(FileNotFoundError), whole_file(f"{path}/"):
        pass
    with pytest.raises(FileNotFoundError), whole_file(""):
        pass
    with pytest.raises(NotADirectoryError, match=rf"'{path}/x'$"):
        path.write_text("old")
        require_writable(path / "x")


def test_what_is_being_written_is_as_private_as_the_end(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text("old")
    path.chmod(0o400)
    with whole_file(path) as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o400
    with whole_file(path, mode=0o640):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_files_of_others_and_files_that_may_not_be_written(tmp_path: Path) -> None:
    """As root the owner is kept; a user cannot replace what cannot be written."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    path, shared = tmp_path / "m", tmp_path / "shared"
    path.write_text("old")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    write_text(path, "new")
    about = path.stat()
    assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (12345, 23456, 0o640)
    shared.mkdir()
    shared.chmod(0o777)
    for name, mode in (("read", 0o644), ("write", 0o666)):
        (shared / name).write_text("old")
        (shared / name).chmod(mode)
    os.chdir(shared)  # nobody else may go through the folders around it
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            try:
                write_text("read", "new")
            except PermissionError as error:
                code = 0 if error.filename == "read" else 2
            write_text("write", "new")
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (shared / "read").read_text() == "old" and (shared / "write").read_text() == "new"
    assert stat.S_IMODE((shared / "write").stat().st_mode) == 0o666


def test_names_as_long_as_there_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)  # 254 bytes
    write_text(path, "new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == [path.name]
    with pytest.raises(OSError, match="File name too long"):
        write_text(tmp_path / ("x" * 256), "new")
    assert os.listdir(tmp_path) == [path.name]


# Open descriptors, and the null device ------------------------------------------------------------

PRINTING = """\
import os, sys
import hybrid as hy
print("before", end=" ")
hy.export(hy.exp, sys.argv[1], hy.arange(3.0))
print("after")
"""


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_into(name: str, tmp_path: Path, given: Given) -> None:
    for arguments in ((sys.executable, "-c", PRINTING), (str(HYBRID_RUN), given.program)):
        options = () if arguments[0] == sys.executable else ("-i", given.array, "-o")
        whole = [*arguments, *options, name]
        begins = b"before \x89HYB" if not options else b"\x93NUMPY"
        piped = subprocess.run(whole, stdout=subprocess.PIPE, check=True, cwd=tmp_path).stdout
        assert piped.startswith(begins) and piped.endswith(b"" if options else b"after\n")
        with (tmp_path / "file").open("wb") as file:
            file.write(b"kept ")
            file.flush()
            subprocess.run(whole, stdout=file, check=True, cwd=tmp_path)
        assert (tmp_path / "file").read_bytes() == b"kept " + piped
        assert os.listdir(tmp_path) == ["file"]


def test_commands_into_a_pipe_say_nothing_more(given: Given, tmp_path: Path) -> None:
    for arguments in (
        ("export", "hybrid:exp", "-i", "f32[3]"),
        ("run", given.program, "-i", given.array),
        ("onnx", "export", "hybrid:exp", "-i", "f32[3]"),
    ):
        command = [sys.executable, "-m", "hybrid", *map(str, arguments), "-o"]
        piped = subprocess.run([*command, "/dev/stdout"], capture_output=True, check=True).stdout
        subprocess.run([*command, tmp_path / "m"], capture_output=True, check=True)
        assert piped == (tmp_path / "m").read_bytes()


def test_a_full_pipe_end(tmp_path: Path, given: Given) -> None:
    for arguments in ((sys.executable, "-c", PRINTING), (str(HYBRID_RUN), given.program, "-i")):
        options = () if arguments[0] == sys.executable else (given.array, "-o")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*arguments, *options, "/dev/stdout"], stdout=full, stderr=subprocess.PIPE,
                check=False, cwd=tmp_path, text=True,
            )  # fmt: skip
        assert done.returncode and "No space left on device" in done.stderr


def test_the_null_device(given: Given) -> None:
    before = os.stat(os.devnull)
    hy.save({"x": X}, os.devnull)
    hy.export(hy.exp, os.devnull, X)
    in_c(given.program, "-i", given.array, "-o", os.devnull, "--save", os.devnull)
    command("export", "hybrid:exp", "-i", "f32[3]", "-o", os.devnull)
    require_writable(os.devnull)
    after = os.stat(os.devnull)
    assert (after.st_rdev, after.st_mode, after.st_ino) == (
        before.st_rdev, before.st_mode, before.st_ino
    )  # fmt: skip
    assert not is_regular(os.devnull) and not is_regular("/dev/stdout") and is_regular("none")


def test_weights_have_no_place_beside_a_device() -> None:
    with pytest.raises(OnnxError, match=r"^/dev/null is no regular file, beside which weights"):
        hy.onnx.export(hy.exp, os.devnull, X, external_data=True)


def test_entries_of_the_cache_belong_to_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    folder.mkdir(0o700)
    place = Path(store.path_of(str(folder), "0" * 40))
    place.write_text("old")
    place.chmod(0o666)
    (folder / "other.plan.0123abcd.tmp").write_text("half")
    store.save(str(folder), "0" * 40, {"parts": []}, 5000)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600 and not left(place)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(FileExistsError, match="it is a FIFO, not a regular file"):
        store.save(str(folder), "0" * 40, {"parts": []}, 5000)


# Nothing else writes ------------------------------------------------------------------------------

# By file: why it may.
WRITES_ELSEWHERE = {
    "core/output_file.py": "the one place",
    "bench/compare/adapters/onnxruntime_.py": "a file in a temporary folder",
    "bench/compare/pictures.py": "a text in memory",
    "bench/tuning.py": "files in a temporary folder",
    "cli/commands/run.py": "bytes in memory",
    "data/digits.py": "into a file of whole_file",
    "simulation/simulated_job.py": "files in a temporary folder",
}
WRITING = {
    "write_text", "write_bytes", "savefig", "replace", "rename", "save", "savez",
    "savez_compressed", "copy", "copy2", "copyfile", "move", "NamedTemporaryFile", "mkstemp",
}  # fmt: skip
OWNERS = {"os", "np", "numpy", "shutil", "tempfile"}


def writes(call: ast.Call) -> bool:
    """Whether a call gives a file a name or a content, as far as its text tells."""
    function, texts = call.func, [a.value for a in call.args if isinstance(a, ast.Constant)]
    modes = any(isinstance(t, str) and set(t) <= set("rwaxbt+") & set(t) and set(t) & set("wax+")
                for t in texts)  # fmt: skip
    if isinstance(function, ast.Name):
        return function.id == "open" and modes
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "open" and modes:
        return True
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if function.attr in ("write_text", "write_bytes", "savefig"):
        return True
    return function.attr in WRITING and owner in OWNERS


def test_no_other_file_of_the_package_writes_files() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        if any(isinstance(node, ast.Call) and writes(node) for node in ast.walk(tree)):
            found.add(str(path.relative_to(PACKAGE)))
    assert found == set(WRITES_ELSEWHERE)


@pytest.mark.parametrize("place", ["fcntl.flock", "os.path.exists"])
def test_an_interrupt_while_the_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It ends the writing, and leaves no file that nobody knows of."""
    calls = []

    def interrupted(*args: Any) -> Any:
        if not calls:
            calls.append(args)
            signal.raise_signal(signal.SIGINT)
        return before(*args)

    before = eval(place)
    monkeypatch.setattr(place, interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            write_text(tmp_path / "a", "text")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert calls and list(tmp_path.iterdir()) == []
