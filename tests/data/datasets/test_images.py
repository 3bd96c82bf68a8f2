"""Folders of images: classes by sub-folder, hooks, and files that are no images."""

import sys

import numpy as np
import pytest
from PIL import Image

import hybrid as hy
from hybrid.data import DataLoader, ImageFolder, image_to_tensor
from hybrid.errors import DataFileError, MissingPackageError

RED, GREY = (255, 0, 51), 128


@pytest.fixture
def root(tmp_path):
    for name, colour in (("dogs/b.png", RED), ("cats/x/a.PNG", GREY), ("cats/c.png", RED)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L" if colour == GREY else "RGB", (4, 2), colour).save(path)
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    (tmp_path / "list.txt").write_text("no class")
    return tmp_path


def test_a_folder(root):
    data = ImageFolder(root)
    assert data.classes == ["cats", "dogs"] and data.class_to_idx == {"cats": 0, "dogs": 1}
    names = ["cats/c.png", "cats/x/a.PNG", "dogs/b.png"]
    assert data.samples == [
        (str(root / name), number) for name, number in zip(names, [0, 0, 1], strict=True)
    ]
    assert len(data) == 3 and data.targets == [0, 0, 1]
    image, label = data[1]
    assert str(image.type) == "f32[3,2,4]" and label == 0
    assert set(image.numpy().ravel().tolist()) == {np.float32(128) / np.float32(255)}
    image, label = data[2]
    assert label == 1 and np.allclose(image.numpy()[:, 0, 0], [1, 0, 0.2])


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_batches_of_images(root, kind):
    ((images, labels),) = DataLoader(ImageFolder(root), 3, workers=1, worker_kind=kind)
    assert images.shape == (3, 3, 2, 4) and labels.tolist() == [0, 0, 1]


def test_hooks(root):
    data = ImageFolder(
        root,
        transform=lambda image: image.resize((1, 1)),
        target_transform=lambda number: f"class {number}",
    )
    image, label = data[0]
    assert image.shape == (3, 1, 1) and label == "class 0"
    data = ImageFolder(root, loader=lambda path: path[-5], extensions=(".txt", ".png"))
    assert [data[i][0] for i in range(4)] == ["c", "s", "a", "b"]


def test_arrays_become_tensors():
    assert image_to_tensor(np.full((2, 3), 255, np.uint8)).tolist() == [[[1.0] * 3] * 2]
    deep = image_to_tensor(np.full((1, 1, 2), 1000, np.uint16))
    assert deep.dtype is hy.float32 and deep.tolist() == [[[1000.0]], [[1000.0]]]


def test_bad_folders(root):
    with pytest.raises(DataFileError) as caught:
        ImageFolder(root / "dogs")
    assert str(caught.value) == (
        f"{root / 'dogs'} has no sub-folders\nEach is a class of images.\n"
        "Fix: put the images of a class into a folder of its name."
    )
    (root / "empty").mkdir()
    with pytest.raises(DataFileError) as caught:
        ImageFolder(root, extensions=(".png",))
    assert str(caught.value) == (
        f"{root / 'empty'} has no images\nTheir names end in .png.\n"
        "Fix: remove the folder, or pass extensions."
    )
    with pytest.raises(FileNotFoundError, match="none"):
        ImageFolder(root / "none")


@pytest.mark.parametrize("workers", [0, 1])
def test_bad_images(root, workers):
    path = root / "dogs" / "b.png"
    loader = DataLoader(ImageFolder(root), 3, workers=workers)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"hello"):
        path.write_bytes(content)
        with pytest.raises(DataFileError) as caught:
            list(loader)
        text = str(caught.value)
        assert text.startswith(f"{path} cannot be read as an image\n")
        assert text.endswith(".\nFix: remove or replace the file.")
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"b\.png"):
        list(loader)


def test_without_pillow(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingPackageError) as caught:
        ImageFolder(root)
    assert str(caught.value) == (
        "hybrid.data.ImageFolder without a loader needs the package pillow, which is not "
        "installed\n"
        'Fix: pip install "hybrid[image]".'
    )
    assert len(ImageFolder(root, loader=str)) == 3
