"""Which functions of the reference implement a published method, and which of them do not name it.

METHODS holds the words of names that stand for such methods. A docstring names its source by a year
("Lavin and Gray, CVPR 2016"), a standard (ONNX, IEEE 754, RFC), or an address; what it refers to
("as `X`") counts as its own.

`python -m tools.api_sources` lists those without one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from tools.api_errors import Public, public

METHODS = (
    r"winograd|\w*(?:batch|layer|group|instance|rms)_norm|lrn|lstm|rotary_embedding|\w*attention\w*"
    r"|\w*gelu|mish|swish|silu|prelu|deformable\w*|correlation\w*|roi_align\w*|roi_pool\w*|proposal"
    r"|multibox\w*|\w*non_max_suppression|reorg\w*|grid_sample\w*|affine_grid\w*|depth_to_space\w*"
    r"|space_to_depth\w*|dilation2d\w*|threefry\w*|philox\w*|bitserial\w*|binarize_pack|binary_dense"
    r"|stft\w*|dft\w*|fft\w*|nll_loss\w*|resize\d?d?(?:_python)?|crop_and_resize\w*|einsum\w*"
    r"|fast_(?:exp|tanh|erf|softmax)|fixed_point_multiply|q_multiply_shift\w*|quantize|dequantize"
    r"|SimulatedAnnealing\w*|XGB\w*|GATuner|DropletTuner|TaskScheduler|SketchPolicy"
    r"|smith_normal\w*|solve_linear_\w+|Dropout|dropout"
    r"|(?:wmma|mma|bmma|wgmma|ldmatrix)(?:_\w+)?|roofline\w*|space_to_batch_nd|batch_to_space_nd"
)
SOURCE = (
    r"\b(?:19|20)\d\d\b|\bet al\b|https?://|\bRFC\b|\bIEEE\b|\bONNX\b|\bISO\b|\bNumPy\b|\bPyTorch\b"
    r"|\bTensorFlow's\b|\bPTX ISA\b|\bCephes\b|\bEigen\b|\bCUDA C\+\+"
)
REFERENCE = (
    r"\b(?:[Aa]s|[Ll]ike|[Ss]ee|of|[Oo]ptions)\b(?: of| in| for)? `?(?:\w+\.)*([A-Za-z_]\w+)`?"
)


def methods() -> Iterator[Public]:
    """What implements a published method."""
    for item in public():
        name = getattr(inspect.unwrap(item.value), "__name__", "")
        inner = item.owner is not None and item.value is not item.owner
        # schedules are of any operator; references in NumPy are of those that name their source
        left_out = (
            inner
            or re.match(r"schedule|\w+_(?:legalize|test_wrapping)$", name)
            or ".topi.testing." in item.path
        )
        if not left_out and re.search(rf"(?:^|_)(?:{METHODS})(?:$|_)", name):
            yield item


def without_source() -> list[str]:
    """The places of those that do not name where the method comes from."""
    return [item.path for item in methods() if not any(map(_named, texts(item)))]


def texts(item: Public) -> Iterator[str]:
    """The docstring, and those of functions that it refers to, two steps deep."""
    found: list[Any] = [item.value]
    seen: set[int] = set()
    for _ in range(3):
        following = []
        for value in found:
            if id(value) in seen:
                continue
            seen.add(id(value))
            doc = " ".join((inspect.getdoc(value) or "").split())
            yield doc
            home = getattr(inspect.unwrap(value), "__globals__", None) or vars(
                inspect.getmodule(value) or object
            )
            following += [
                home[name] for name in re.findall(REFERENCE, doc) if callable(home.get(name))
            ]
        found = following


def _named(text: str) -> bool:
    return re.search(SOURCE, text) is not None


def main() -> None:
    """Print them."""
    print(*without_source(), sep="\n")


if __name__ == "__main__":
    main()
