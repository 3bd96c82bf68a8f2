"""Folders of images, a class for each sub-folder; reading them takes Pillow (extra ``image``)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from hybrid.core.imports import optional
from hybrid.data.datasets.dataset import Dataset
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import DataFileError

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def image_to_tensor(image: Any) -> Tensor:
    """A Pillow image or an array ``[height, width]`` or ``[height, width, channels]`` as a tensor
    ``[channels, height, width]`` of float32; values of 8 bits come to lie from 0 to 1.
    """
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    planes = np.ascontiguousarray(np.moveaxis(pixels, 2, 0), dtype=np.float32)
    return asarray(planes / np.float32(255) if pixels.dtype == np.uint8 else planes)


class ImageFolder(Dataset):
    """Samples are images and the numbers of their classes: ``root/class/.../name.png``.

    ``classes`` are the sorted names of the sub-folders, ``samples`` the paths with their numbers.
    ``transform`` gets a Pillow image in RGB (or what ``loader``, called with the path, gives);
    images that come out of it, or that there is no transform for, become tensors
    ``[3, height, width]``.  ``target_transform`` gets the number.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        loader: Callable[[str], Any] | None = None,
        extensions: tuple[str, ...] = EXTENSIONS,
    ) -> None:
        self.root = os.fspath(root)
        self.transform, self.target_transform = transform, target_transform
        self.loader = loader or open_image
        if loader is None:
            _pillow()  # what is missing is missed here, not in a worker
        with os.scandir(self.root) as entries:
            self.classes = sorted(entry.name for entry in entries if entry.is_dir())
        if not self.classes:
            raise DataFileError(
                f"{self.root} has no sub-folders",
                why="Each is a class of images.",
                fix="put the images of a class into a folder of its name",
            )
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.samples: list[tuple[str, int]] = []
        for name, number in self.class_to_idx.items():
            paths = _images(os.path.join(self.root, name), extensions)
            if not paths:
                raise DataFileError(
                    f"{os.path.join(self.root, name)} has no images",
                    why=f"Their names end in {', '.join(extensions)}.",
                    fix="remove the folder, or pass extensions",
                )
            self.samples += [(path, number) for path in paths]
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        image = self.loader(path)
        if self.transform is not None:
            image = self.transform(image)
        if hasattr(image, "getbands"):  # a Pillow image
            image = image_to_tensor(image)
        return image, target if self.target_transform is None else self.target_transform(target)


def open_image(path: str) -> Any:
    """The Pillow image in a file, in RGB; DataFileError names a file that is none."""
    pillow = _pillow()
    try:
        with pillow.open(path) as image:
            return image.convert("RGB")
    except (pillow.UnidentifiedImageError, SyntaxError, ValueError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, not of Pillow
            raise
        raise DataFileError(
            f"{path} cannot be read as an image", why=f"{error}.", fix="remove or replace the file"
        ) from error


def _images(folder: str, extensions: tuple[str, ...]) -> list[str]:
    found = []
    for place, folders, names in os.walk(folder, followlinks=True):
        folders.sort()
        found += [os.path.join(place, n) for n in sorted(names) if n.lower().endswith(extensions)]
    return found


def _pillow() -> Any:
    return optional("PIL.Image", "image", "hybrid.data.ImageFolder without a loader")
