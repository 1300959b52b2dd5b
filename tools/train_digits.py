"""Train the small digits classifier of examples/digits and export it to ONNX.

    python -m tools.train_digits [--out examples/digits]

Data: the 1,797 handwritten digits (8x8, 17 grey levels) that scikit-learn ships, the test part of
the UCI "Optical Recognition of Handwritten Digits" set; every fifth image is kept for testing.
Network: three 3x3 convolutions with batch norm and ReLU, two max pools, one linear layer. The ONNX
graph keeps its batch-norm nodes, so that importing it exercises their folding. Needs torch and
scikit-learn. The seed is fixed; another version of PyTorch may still give slightly other weights.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import nn

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.onnx_writer import GraphWriter

SEED = 0
EPOCHS = 60
BATCH = 64
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "examples" / "digits"

Images = NDArray[np.float32]
Labels = NDArray[np.int64]


def load_split() -> tuple[Images, Labels, Images, Labels]:
    """Training images and labels, test images and labels; images are (N, 1, 8, 8) in 0..1."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    test = np.arange(len(images)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def make_net() -> nn.Sequential:
    """The untrained network: (N, 1, 8, 8) to (N, 10) logits."""
    layers: list[nn.Module] = []
    for cin, cout, pool in [(1, 16, False), (16, 32, True), (32, 64, True)]:
        layers += [nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
        if pool:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 2 * 2, 10))


def shifted(images: torch.Tensor) -> torch.Tensor:
    """The batch, moved by one random step of up to a pixel in each direction."""
    dy, dx = (int(v) for v in torch.randint(0, 3, (2,)))
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    return padded[:, :, dy : dy + 8, dx : dx + 8]


def train(net: nn.Sequential, images: Images, labels: Labels) -> None:
    """Minimise cross entropy with Adam and a cosine learning rate; leaves ``net`` in eval mode."""
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    net.train()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(shifted(x[part])), y[part]).backward()
            optimizer.step()
        rate.step()
    net.eval()


def to_numpy(value: torch.Tensor) -> NDArray[np.float32]:
    """A float32 copy of a parameter."""
    return value.detach().numpy().astype(np.float32)


def export(net: nn.Sequential, batch: int | str) -> onnx.ModelProto:
    """The network as an ONNX model with input ``input`` and output ``logits``."""
    graph = GraphWriter("digits", "input", (batch, 1, 8, 8))
    x = "input"
    for i, layer in enumerate(net):
        name = "logits" if isinstance(layer, nn.Linear) else f"layer{i}"
        if isinstance(layer, nn.Conv2d):
            x = graph.conv(x, name, to_numpy(layer.weight), pad=1)
        elif isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None and layer.running_var is not None
            parts = [layer.weight, layer.bias, layer.running_mean, layer.running_var]
            x = graph.batch_norm(x, name, *(to_numpy(part) for part in parts))
        elif isinstance(layer, nn.ReLU):
            x = graph.relu(x, name)
        elif isinstance(layer, nn.MaxPool2d):
            x = graph.pool("MaxPool", x, name, 2, 2)
        elif isinstance(layer, nn.Flatten):
            x = graph.node("Flatten", [x], name, axis=1)
        elif isinstance(layer, nn.Linear):
            x = graph.linear(x, name, to_numpy(layer.weight), to_numpy(layer.bias))
        else:
            raise TypeError(f"no export of {type(layer).__name__}")
    return graph.model(x, (batch, 10))


def main(argv: list[str] | None = None) -> int:
    """Train, export, and write the test images with PyTorch's logits and accuracy beside them."""
    parser = argparse.ArgumentParser(description="Train and export the digits classifier.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    args = parser.parse_args(argv)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    images, labels, test_images, test_labels = load_split()
    net = make_net()
    train(net, images, labels)
    with torch.no_grad():
        logits = to_numpy(net(torch.from_numpy(test_images)))
    correct = int((logits.argmax(1) == test_labels).sum())
    result = {
        "dataset": "scikit-learn load_digits, every fifth image",
        "train_images": len(images),
        "test_images": len(test_images),
        "pytorch_version": torch.__version__,
        "pytorch_correct": correct,
        "pytorch_accuracy": round(correct / len(test_labels), 6),
    }
    args.out.mkdir(parents=True, exist_ok=True)
    onnx.save(export(net, 1), str(args.out / "digits.onnx"))
    np.save(args.out / "test_images.npy", test_images)
    np.save(args.out / "test_labels.npy", test_labels)
    np.save(args.out / "expected_logits.npy", logits)
    (args.out / "accuracy.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"PyTorch: {correct} of {len(test_labels)} test images right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
