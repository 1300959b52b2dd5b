"""`python -m tests.cuda_text [--arch sm_80] [NAME ...]`: the corpus of GPU kernels as text."""

from __future__ import annotations

import argparse
import sys

import tilewright as tw
from tests.cuda_text import kernels_as_text
from tests.exec.gpu.corpus import CASES
from tests.exec.gpu.kit import problem


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the text of CUDA kernels on the CPU.")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("names", nargs="*", default=sorted(CASES), metavar="NAME")
    args = parser.parse_args()
    counts = {"right": 0, "wrong": 0, "refused": 0}
    for name in args.names:
        p = problem(name)
        if not p.case.runs_on(args.arch):
            continue
        what = "right"
        try:
            with kernels_as_text(args.arch):
                arrays = p.arrays(tw.simt(0))
                p.build(tw.Target(f"cuda -arch={args.arch}"))(*arrays)
                p.check(arrays)
        except NotImplementedError as error:
            what, told = "refused", str(error)
        except Exception as error:
            what, told = "wrong", f"{type(error).__name__}: {error}"
        counts[what] += 1
        print(f"{name}: {what}{'' if what == 'right' else f': {told[:300]}'}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return bool(counts["wrong"])


if __name__ == "__main__":
    sys.exit(main())
