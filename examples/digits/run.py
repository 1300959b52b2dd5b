"""Compile the trained digits classifier, run it on its 360 test images, compare with PyTorch.

    python examples/digits/run.py

`tools/train_digits.py` made the files beside this script: the network, trained with PyTorch on the
handwritten digits that scikit-learn ships, the test images with their labels, and the logits and
the accuracy that PyTorch got on them. Exits with 1 if tilewright's differ.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

from tilewright import graph

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-4


def show(image: np.ndarray) -> str:
    """The 8x8 image as eight lines of characters."""
    shades = " .:-=+*#%@"
    return "\n".join("  " + "".join(shades[int(v * 9)] * 2 for v in row) for row in image)


def main() -> int:
    images = np.load(HERE / "test_images.npy")
    labels = np.load(HERE / "test_labels.npy")
    expected = np.load(HERE / "expected_logits.npy")
    pytorch = json.loads((HERE / "accuracy.json").read_text())

    start = time.perf_counter()
    net = graph.compile(graph.load_onnx(HERE / "digits.onnx"), target="llvm")
    compile_s = time.perf_counter() - start

    logits = np.empty_like(expected)
    times = []
    for i in range(len(images)):
        start = time.perf_counter()
        out = net.run({"input": images[i : i + 1]})
        times.append(time.perf_counter() - start)
        logits[i] = out["logits"][0]

    digits = logits.argmax(axis=1)
    correct = int((digits == labels).sum())
    error = float(np.abs(logits - expected).max())
    scale = float(np.abs(expected).max())
    print(f"the first test image, read as a {digits[0]}:\n{show(images[0, 0])}")
    print(f"compiled in   {compile_s:.2f} s")
    print(f"accuracy      {correct / len(labels):.4%} ({correct} of {len(labels)})")
    print(f"PyTorch's     {pytorch['pytorch_accuracy']:.4%} ({pytorch['pytorch_correct']})")
    print(f"logits        differ from PyTorch's by at most {error:.2g} (largest: {scale:.1f})")
    print(f"latency       {np.median(times) * 1e6:.1f} us an image (median of {len(times)} calls)")
    if correct != pytorch["pytorch_correct"] or error > TOLERANCE * scale:
        print("WRONG: the compiled network differs from PyTorch's")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
