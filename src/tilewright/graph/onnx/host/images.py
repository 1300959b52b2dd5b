"""ImageDecoder: files of pictures, read by Pillow."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from ..node import HostFunction, HostNode
from .common import Array, required

_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def _decode(node: HostNode) -> list[Any]:
    stream: Array = required(node, 0)
    wanted = node.get("pixel_format", "RGB")
    if wanted not in ("RGB", "BGR", "Grayscale"):
        raise node.error(f"pixel_format {wanted!r}; there are RGB, BGR, Grayscale")
    try:
        from PIL import Image
    except ImportError:
        raise node.error(
            "pictures are read by Pillow, which is not installed: pip install tilewright[images]"
        ) from None
    channels = 1 if wanted == "Grayscale" else 3
    try:
        with Image.open(BytesIO(stream.astype(np.uint8).tobytes()), formats=_FORMATS) as picture:
            pixels = np.array(picture.convert("L" if channels == 1 else "RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):
        return [np.zeros((0, 0, channels), np.uint8)]  # as the standard wants what is damaged
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return [pixels[..., ::-1] if wanted == "BGR" else pixels]


FUNCTIONS: dict[str, HostFunction] = {"ImageDecoder": _decode}
