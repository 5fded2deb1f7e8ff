"""Data sets by the name a user gives."""

from __future__ import annotations

from treadle.base.errors import DataFileError
from treadle.data.dataset import Images
from treadle.data.digits import digits
from treadle.data.fashion_mnist import fashion_mnist
from treadle.data.npz import images_from_npz
from treadle.io.files import PathLike


def load_images(name: str, data_dir: PathLike | None = None) -> Images:
    """The images called "digits", "fashion-mnist" or by the path of an .npz file.

    >>> load_images("digits").classes
    10
    """
    if name == "digits":
        return digits()
    if name == "fashion-mnist":
        return fashion_mnist(data_dir)
    if name.lower().endswith(".npz"):
        return images_from_npz(name)
    raise DataFileError(
        f"there is no data set {name!r}", hint="known: digits, fashion-mnist, PATH.npz"
    )
