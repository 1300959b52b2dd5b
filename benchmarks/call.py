"""What a call of a built function costs: microseconds for three arrays of one element each.

    python benchmarks/call.py [--json]

Four ways to call a serial function C = A + B: prepared (arguments checked once), with arrays of
the runtime, with NumPy arrays, and with tensors of another library through DLPack. Beside them, a
NumPy ufunc on the same arrays. Each figure is the best of several repetitions.
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

BUDGETS_US = {"prepared": 2.0, "runtime arrays": 5.0, "NumPy arrays": 15.0}


class Lent:
    """An array that speaks DLPack and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def build_add() -> Any:
    """A serial function C = A + B over float32 vectors of one element."""
    import tilewright
    from tilewright import te

    a, b = (te.placeholder((1,), name=name) for name in "AB")
    c = te.compute((1,), lambda i: a[i] + b[i], name="C")
    return tilewright.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")


def best_us(call: Callable[[], Any], number: int = 20_000, repeat: int = 7) -> float:
    """Microseconds of one call, in the best of `repeat` repetitions."""
    call()
    return min(timeit.repeat(call, number=number, repeat=repeat)) / number * 1e6


def measure(function: Any) -> dict[str, float]:
    """Microseconds of a call, by the kind of arguments."""
    from tilewright import nd

    arrays = [np.ones(1, np.float32) for _ in range(3)]
    own = [nd.array(x) for x in arrays]
    lent = [Lent(x) for x in arrays]
    a, b, c = arrays
    x, y, z = own
    p, q, r = lent
    return {
        "prepared": best_us(function.prepare(*own)),
        "runtime arrays": best_us(lambda: function(x, y, z)),
        "NumPy arrays": best_us(lambda: function(a, b, c)),
        "DLPack": best_us(lambda: function(p, q, r), number=2000),
        "numpy.add itself": best_us(lambda: np.add(a, b, out=c)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    from tilewright.rt.busy import watched

    with watched():
        results = measure(build_add())
    if options.json:
        print(json.dumps({"call_us": results, "budget_us": BUDGETS_US}))
        return
    for name, value in results.items():
        budget = BUDGETS_US.get(name)
        note = f"   budget {budget:4.0f} us" if budget else ""
        print(f"{name:18} {value:7.2f} us{note}")


if __name__ == "__main__":
    main()
