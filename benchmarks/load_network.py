"""How long saving and loading a network takes, and how large its file is.

    python -m benchmarks.load_network [--network resnet50] [--json]

The network is loaded in new processes in which llvmlite, onnx and ml_dtypes cannot be imported; the
time is that of `tilewright.load_network`, after `import tilewright` and NumPy. Bar: 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR_MS = 50.0
_CHILD = """
import sys, time
for name in ("llvmlite", "onnx", "ml_dtypes"): sys.modules[name] = None
import numpy as np
start = time.perf_counter()
import tilewright
from tilewright.rt import network
imported = time.perf_counter()
net = tilewright.load_network(sys.argv[1])
loaded = time.perf_counter()
inputs = [np.zeros(v.shape, v.dtype) for v in net.inputs]
net(*inputs)
print((imported - start) * 1e3, (loaded - imported) * 1e3, (time.perf_counter() - loaded) * 1e3)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    import tilewright
    from tools.make_networks import make

    net = tilewright.compile(make(options.network, seed=0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.net"
        start = time.perf_counter()
        net.save(path)
        saving = time.perf_counter() - start
        runs = [
            subprocess.run(
                [sys.executable, "-c", _CHILD, path], capture_output=True, text=True, check=True
            ).stdout.split()
            for _ in range(options.repeat)
        ]
        names = ("import_ms", "load_ms", "first_run_ms")
        medians = (statistics.median(map(float, column)) for column in zip(*runs))
        report = {
            "network": options.network,
            "bytes": os.path.getsize(path),
            "save_ms": saving * 1e3,
            **dict(zip(names, medians)),
        }
    if options.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        print(f"{name:14}{value if isinstance(value, str) else format(value, ',.1f')}")
    print(f"bar: load_ms at most {BAR_MS:.0f}")


if __name__ == "__main__":
    main()
