"""Layers of networks as people run them, for `benchmarks.ops --set layers`, and shapes drawn by a
seed, for `--set odd`.

Sizes of layers are those of the networks' papers and of torchvision's and Hugging Face's models at
their usual inputs: images of 224 x 224 (Inception 299, YOLO 416, U-Net 572), 128, 197 or 512
tokens. Of several networks that have the same layer the first is named. Kernels that are not square
are left out: no workload has them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

Shape = tuple[int, ...]

# network: operator: shapes, as ops_suite has them. C2D and DEP: height, width, channels (in, out),
# kernel, stride, padding; GRP: the number of groups behind; GMM: rows, columns, inner
LAYERS: dict[str, dict[str, tuple[Shape, ...]]] = {
    "AlexNet": {
        "C2D": ((224, 224, 3, 64, 11, 4, 2), (27, 27, 64, 192, 5, 1, 2),
                (13, 13, 192, 384, 3, 1, 1), (13, 13, 384, 256, 3, 1, 1)),
        "GMM": ((1, 4096, 9216), (1, 1000, 4096)),
    },
    "VGG-16": {
        "C2D": ((224, 224, 3, 64, 3, 1, 1), (112, 112, 64, 128, 3, 1, 1),
                (56, 56, 256, 256, 3, 1, 1), (28, 28, 512, 512, 3, 1, 1),
                (14, 14, 512, 512, 3, 1, 1)),
        "GMM": ((1, 4096, 25088),),
    },
    "ResNet-18": {
        "C2D": ((56, 56, 64, 64, 3, 1, 1), (56, 56, 64, 128, 3, 2, 1), (28, 28, 128, 128, 3, 1, 1),
                (28, 28, 128, 256, 3, 2, 1), (14, 14, 256, 512, 3, 2, 1),
                (56, 56, 64, 128, 1, 2, 0)),
        "GMM": ((1, 1000, 512),),
    },
    "ResNet-50": {
        "C2D": ((56, 56, 64, 256, 1, 1, 0), (56, 56, 256, 64, 1, 1, 0), (56, 56, 256, 128, 1, 1, 0),
                (28, 28, 128, 512, 1, 1, 0), (56, 56, 256, 512, 1, 2, 0),
                (14, 14, 1024, 256, 1, 1, 0), (14, 14, 1024, 2048, 1, 2, 0),
                (7, 7, 512, 2048, 1, 1, 0)),
        "GMM": ((1, 1000, 2048),),
    },
    "ResNeXt-50": {
        "GRP": ((56, 56, 128, 128, 3, 1, 1, 32), (28, 28, 256, 256, 3, 1, 1, 32),
                (14, 14, 512, 512, 3, 1, 1, 32), (7, 7, 1024, 1024, 3, 1, 1, 32)),
    },
    "Inception v3": {
        "C2D": ((299, 299, 3, 32, 3, 2, 0), (149, 149, 32, 32, 3, 1, 0),
                (147, 147, 32, 64, 3, 1, 1),
                (73, 73, 80, 192, 3, 1, 0), (35, 35, 48, 64, 5, 1, 2), (35, 35, 64, 96, 3, 1, 1),
                (35, 35, 288, 384, 3, 2, 0), (17, 17, 768, 192, 1, 1, 0),
                (8, 8, 1280, 448, 1, 1, 0), (8, 8, 448, 384, 3, 1, 1)),
    },
    "GoogLeNet": {
        "C2D": ((28, 28, 192, 96, 1, 1, 0), (28, 28, 96, 128, 3, 1, 1), (14, 14, 480, 208, 1, 1, 0),
                (14, 14, 112, 224, 3, 1, 1), (7, 7, 832, 160, 1, 1, 0)),
    },
    "DenseNet-121": {
        "C2D": ((56, 56, 96, 128, 1, 1, 0), (56, 56, 128, 32, 3, 1, 1), (28, 28, 224, 128, 1, 1, 0),
                (28, 28, 128, 32, 3, 1, 1), (14, 14, 544, 128, 1, 1, 0), (14, 14, 128, 32, 3, 1, 1),
                (7, 7, 992, 128, 1, 1, 0)),
    },
    "SqueezeNet": {
        "C2D": ((55, 55, 96, 16, 1, 1, 0), (55, 55, 16, 64, 3, 1, 1), (27, 27, 32, 128, 3, 1, 1),
                (13, 13, 48, 192, 3, 1, 1), (13, 13, 512, 1000, 1, 1, 0)),
    },
    "MobileNet v1": {
        "C2D": ((224, 224, 3, 32, 3, 2, 1), (112, 112, 32, 64, 1, 1, 0),
                (14, 14, 512, 512, 1, 1, 0)),
        "DEP": ((56, 56, 128, 3, 1, 1), (28, 28, 256, 3, 2, 1), (14, 14, 512, 3, 1, 1)),
    },
    "MobileNet v2": {
        "C2D": ((112, 112, 16, 96, 1, 1, 0), (56, 56, 144, 24, 1, 1, 0), (28, 28, 32, 192, 1, 1, 0),
                (14, 14, 384, 96, 1, 1, 0), (7, 7, 160, 960, 1, 1, 0), (7, 7, 320, 1280, 1, 1, 0)),
        "DEP": ((112, 112, 96, 3, 2, 1), (56, 56, 144, 3, 1, 1), (28, 28, 192, 3, 2, 1),
                (7, 7, 960, 3, 1, 1)),
    },
    "MobileNet v3": {
        "C2D": ((28, 28, 40, 120, 1, 1, 0), (14, 14, 184, 80, 1, 1, 0), (7, 7, 672, 160, 1, 1, 0)),
        "DEP": ((56, 56, 72, 5, 2, 2), (28, 28, 120, 5, 1, 2), (14, 14, 672, 5, 2, 2)),
    },
    "EfficientNet-B0": {
        "C2D": ((56, 56, 24, 144, 1, 1, 0), (28, 28, 240, 40, 1, 1, 0), (14, 14, 112, 672, 1, 1, 0),
                (7, 7, 1152, 192, 1, 1, 0), (1, 1, 480, 20, 1, 1, 0)),
        "DEP": ((112, 112, 32, 3, 1, 1), (28, 28, 240, 5, 1, 2), (14, 14, 480, 3, 1, 1),
                (7, 7, 1152, 5, 1, 2)),
    },
    "ShuffleNet v2": {
        "C2D": ((28, 28, 58, 58, 1, 1, 0), (14, 14, 116, 116, 1, 1, 0), (7, 7, 232, 232, 1, 1, 0)),
        "DEP": ((28, 28, 58, 3, 1, 1), (14, 14, 116, 3, 1, 1)),
    },
    "ConvNeXt-T": {
        "C2D": ((224, 224, 3, 96, 4, 4, 0), (56, 56, 96, 192, 2, 2, 0)),
        "DEP": ((56, 56, 96, 7, 1, 3), (14, 14, 384, 7, 1, 3)),
        "GMM": ((3136, 384, 96), (196, 1536, 384)),
    },
    "YOLOv3": {
        "C2D": ((416, 416, 3, 32, 3, 1, 1), (208, 208, 64, 32, 1, 1, 0),
                (52, 52, 128, 256, 3, 1, 1),
                (13, 13, 1024, 255, 1, 1, 0), (26, 26, 768, 256, 1, 1, 0)),
    },
    "U-Net": {
        "C2D": ((572, 572, 1, 64, 3, 1, 0), (140, 140, 128, 256, 3, 1, 0),
                (64, 64, 512, 512, 3, 1, 0)),
    },
    "DCGAN": {
        "T2D": ((4, 4, 1024, 512, 4, 2, 1), (16, 16, 256, 128, 4, 2, 1), (32, 32, 128, 3, 4, 2, 1)),
    },
    "C3D": {
        "C3D": ((8, 28, 28, 128, 256, 3, 1, 1), (4, 14, 14, 256, 512, 3, 1, 1)),
    },
    "wav2vec 2.0": {
        "C1D": ((3199, 512, 512, 3, 2, 0), (799, 512, 512, 3, 2, 0), (199, 512, 512, 2, 2, 0)),
    },
    "BERT-base": {
        "GMM": ((128, 768, 768), (128, 3072, 768), (128, 768, 3072)),
        "TBS": ((384, 12, 64),),
    },
    "ViT-B/16": {
        "C2D": ((224, 224, 3, 768, 16, 16, 0),),
        "GMM": ((197, 768, 768), (197, 3072, 768), (197, 768, 3072), (1, 1000, 768)),
        "TBS": ((197, 12, 64),),
    },
    "GPT-2": {
        "GMM": ((1, 2304, 768), (1, 50257, 768), (512, 768, 3072)),
        "TBS": ((512, 12, 64),),
    },
}  # fmt: skip

ODD_CASES = 44  # four turns
PRIMES = (3, 5, 7, 11, 13, 17, 23, 31, 53, 67, 97, 101, 131, 197, 251, 331, 509, 691, 997)
EVERYDAY = (1, 2, 10, 30, 50, 100, 120, 200, 300, 500, 768, 1000)


def layers() -> Iterator[tuple[str, str, Shape]]:
    """(network, operator, shape), each layer once."""
    seen: set[tuple[str, Shape]] = set()
    for network, operators in LAYERS.items():
        for op, shapes in operators.items():
            for shape in shapes:
                if (op, shape) not in seen:
                    seen.add((op, shape))
                    yield network, op, shape


class _Odd:
    """Sizes that no schedule was made for: primes, round numbers, neighbours of powers of two."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def size(self, least: int, most: int) -> int:
        near = [(1 << self.rng.randint(1, 10)) + self.rng.choice((-1, 1)) for _ in range(4)]
        fit = [n for n in (*PRIMES, *EVERYDAY, *near) if least <= n <= most]
        return self.rng.choice(fit)

    def window(self) -> Shape:
        """Kernel, stride, padding."""
        k = self.rng.choice((1, 3, 3, 5, 7))
        return k, self.rng.choice((1, 1, 2)), self.rng.choice((k // 2, k // 2, 0))

    def image(self, channels: int) -> Shape:
        """Height and width, smaller with more channels."""
        most = max(9, min(130, 16384 // channels))
        return self.size(7, most), self.size(7, most)

    def draw(self, op: str) -> Shape:
        if op == "GMM":
            return self.size(1, 1100), self.size(1, 1100), self.size(10, 1100)
        if op == "NRM":
            return self.size(3, 1100), self.size(10, 1100)
        if op == "TBS":
            return self.size(17, 400), self.size(1, 16), self.size(10, 130)
        if op == "T2D":
            ci = self.size(10, 300)
            return self.size(3, 31), self.size(3, 31), ci, self.size(1, 130), 4, 2, 1
        if op == "GRP":
            groups, own = self.rng.choice((2, 3, 8)), self.size(3, 67)
            ci, co = groups * own, groups * self.size(3, 67)
            return *self.image(ci), ci, co, 3, self.rng.choice((1, 2)), 1, groups
        ci, co = self.size(1, 520), self.size(1, 520)
        if op == "DIL":
            return *self.image(max(ci, co)), ci, co, 3, self.rng.choice((1, 2)), 2
        if op == "C1D":
            return self.size(17, 1100), ci, co, *self.window()
        if op == "DEP":
            k = self.rng.choice((3, 5, 7))
            return *self.image(ci), ci, k, self.rng.choice((1, 2)), k // 2
        return *self.image(max(ci, co)), ci, co, *self.window()


def odd(seed: int) -> Iterator[tuple[str, Shape]]:
    """(operator, shape), ODD_CASES of them, the same for the same seed."""
    draws, seen = _Odd(seed), set[tuple[str, Shape]]()
    turns = ("GMM", "C2D", "GMM", "C2D", "DEP", "NRM", "C1D", "TBS", "GRP", "T2D", "DIL")
    while len(seen) < ODD_CASES:
        op = turns[len(seen) % len(turns)]
        shape = draws.draw(op)
        if (op, shape) not in seen:
            seen.add((op, shape))
            yield op, shape
