"""Whose files plans are taken from, and which key they are signed with."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hybrid as hy
from hybrid.calls.files import store, trust
from tests.staging.harness import describe, f32

KEPT, LOADED = "kept in a file", "loaded from a file"
X = f32([0.5, -1.0, 2.0])
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


def function(x):
    while hy.sum(x) < 20.0:
        x = x * 2.0 + 1.0
    return x


def filed() -> str:
    call = hy.hybridize(function)
    assert describe(call(X)) == describe(function(X))
    return call.plans[0].filed


@pytest.fixture(autouse=True)
def warned_anew() -> Iterator[None]:
    before = set(store._warned)
    store._warned.clear()
    yield
    store._warned |= before


@pytest.fixture
def entry(folder: Path) -> Path:
    assert filed() == KEPT and filed() == LOADED
    return next(folder.iterdir())


Change = Callable[[Path], object]
REFUSED: list[tuple[str, Change, str]] = [
    ("group", lambda file: file.parent.chmod(0o770), "can be written by its group, its mode is"),
    ("all", lambda file: file.parent.chmod(0o702), "can be written by all users, its mode is"),
    ("sticky", lambda file: file.parent.chmod(0o1777), "can be written by its group"),
    ("around", lambda file: file.parent.parent.chmod(0o775), "can be written by its group"),
    ("file", lambda file: file.chmod(0o620), "can be written by its group, its mode is 0620"),
]


@pytest.mark.parametrize(("change", "why"), [pytest.param(c, w, id=i) for i, c, w in REFUSED])
def test_what_others_can_write_is_refused(entry: Path, change: Change, why: str) -> None:
    change(entry)
    with pytest.warns(RuntimeWarning, match=f"plans in .* are not used: .*{why}") as caught:
        assert LOADED not in filed()
    assert len(caught) == 1 and "chmod go-w" in str(caught[0].message)


@ROOT
@pytest.mark.parametrize("what", ["file", "folder", "around"])
def test_what_another_owns_is_refused(entry: Path, what: str) -> None:
    path = {"file": entry, "folder": entry.parent, "around": entry.parent.parent}[what]
    os.chown(path, 4321, -1)
    with pytest.warns(RuntimeWarning, match="belongs to another user, of number 4321"):
        assert LOADED not in filed()
    os.chown(path, 0, -1)


def test_a_sticky_folder_around_is_none_of_others(entry: Path) -> None:
    entry.parent.parent.chmod(0o1777)
    assert filed() == LOADED


def test_links_lead_to_what_is_looked_at(entry: Path, tmp_path: Path) -> None:
    other = tmp_path / "open"
    other.mkdir()
    other.chmod(0o777)
    entry.rename(other / entry.name)
    entry.symlink_to(other / entry.name)
    with pytest.warns(RuntimeWarning, match="open can be written by its group"):
        assert LOADED not in filed()


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        trust.make_folder(str(tmp_path / "a" / "b"))
    finally:
        os.umask(before)
    for made in ("a", "a/b"):
        assert stat.S_IMODE((tmp_path / made).stat().st_mode) == 0o700


# The key ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 32, 63, 64, 65, 200])
def test_mac(length: int) -> None:
    key = os.urandom(length)
    assert trust.mac(key, b"some content") == hmac.digest(key, b"some content", "sha256").hex()


def test_an_entry_of_another_key_is_refused(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYBRID_PLAN_CACHE_KEY", "another one")
    with pytest.warns(RuntimeWarning, match="signed with another key") as caught:
        assert filed() == KEPT
    assert len(caught) == 1 and filed() == LOADED


def test_a_forged_entry_is_refused(entry: Path) -> None:
    """Somebody who knows the format, and not the key."""
    body = entry.read_bytes().partition(b"\n")[2].replace(b'"consumed":[]', b'"consumed":[0]')
    for digest in (hashlib.sha256(body).hexdigest(), trust.mac(b"", body), "", "0" * 64):
        entry.write_bytes(f"{store.FORMAT} {len(body)} {digest}\n".encode() + body)
        with pytest.raises(store.Damaged, match="signed with another key"):
            store.unpacked(entry.read_bytes())


@pytest.fixture
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the key is, with none there and none in the environment."""
    monkeypatch.delenv("HYBRID_PLAN_CACHE_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "hybrid" / "plan_cache.key"


def test_a_key_is_made_once(own_key: Path, folder: Path) -> None:
    assert filed() == KEPT and filed() == LOADED
    assert stat.S_IMODE(own_key.stat().st_mode) == 0o600
    assert own_key.read_bytes() == trust.key() and len(trust.key()) == trust.KEY_BYTES
    assert [path.name for path in own_key.parent.iterdir()] == [own_key.name]
    own_key.unlink()
    with pytest.warns(RuntimeWarning, match="signed with another key"):
        assert filed() == KEPT


def test_one_key_whoever_makes_it(own_key: Path) -> None:
    found: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: found.append(trust.key()), daemon=True) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


KEYS: list[tuple[str, Change, str]] = [
    ("read by others", lambda key: key.chmod(0o640), "others can read the key"),
    ("written by others", lambda key: key.chmod(0o620), "can be written by its group"),
    ("short", lambda key: key.write_bytes(b"short"), "holds no key of 32 bytes: delete it"),
    ("long", lambda key: key.write_bytes(bytes(33)), "holds no key of 32 bytes: delete it"),
    ("folder", lambda key: (key.unlink(), key.mkdir()), "there is no key at"),
]


@pytest.mark.parametrize(("change", "why"), [pytest.param(c, w, id=i) for i, c, w in KEYS])
def test_keys_that_are_none(own_key: Path, folder: Path, change: Change, why: str) -> None:
    trust.key()
    change(own_key)
    with pytest.warns(RuntimeWarning, match=f"plans in .* are not used: .*{why}") as caught:
        assert why in filed()
    assert len(caught) == 1


def test_a_home_that_cannot_be_written(own_key: Path, folder: Path) -> None:
    own_key.parent.parent.write_text("no folder")
    with pytest.warns(RuntimeWarning, match="set HYBRID_PLAN_CACHE_KEY"):
        assert "there is no key at" in filed()


def test_it_says_nothing_where_all_is_well(entry: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert filed() == LOADED
