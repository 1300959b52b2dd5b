"""`python -m tests.fuzz.graphs --cases N --seed S [--target T]`: random ONNX graphs.

What a graph must give is found node by node by ONNX's reference evaluator, floats in float64 and
rounded to their type after each node. Integers, and floats on which every operation is exact, are
compared bit for bit. For others, a result may be off by 16 times as much as three runs are in which
each operand and result moves by some roundings of its type, and by some roundings of its own: 8,
and twice the root of the number of terms of a sum. Where the reference disagrees and ONNX Runtime
does not, the reference is wrong, and that is counted. A crash, another exception, a wrong result,
and a refusal are findings.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from tests.fuzz.graph_draws import NEWEST, Array, Drawn, Draws, NoDraw, is_float
from tests.fuzz.graph_operators import OPERATORS
from tests.fuzz.graph_reference import reference
from tests.fuzz.isolated import Dead, Worker
from tests.fuzz.progress import Progress
from tilewright import graph
from tilewright.base.errors import TilewrightError

SECONDS = 120.0
ROUNDED = frozenset(
    ("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Sin", "Cos", "Div", "Reciprocal", "Pow",
     "Softmax", "LogSoftmax", "AveragePool", "GlobalAveragePool", "ReduceMean",
     "BatchNormalization")
)  # fmt: skip
SUMS = frozenset(
    ("MatMul", "Gemm", "Conv", "ReduceSum", "Sum", "ReduceMean", "GlobalAveragePool", "Softmax",
     "LogSoftmax")
)  # fmt: skip

LEAST_NOISE = 2.0**-51  # what is smaller rounds away in the reference, which computes in float64
UNSOUND = 1e-3  # of the largest: what lies further off, and as far as it is large, is not known


def epsilon(a: Array) -> float:
    return float(ml_dtypes.finfo(a.dtype).eps) / 2


def evaluate(
    opset: int, node: Any, given: Sequence[Array | None], exact: bool
) -> tuple[Array, bool]:
    """The result of one node, and whether it is exact. NoDraw where ONNX does not take it."""
    single = Drawn(opset, [node], {}, set(), list(node.output))
    single.arrays = {n: a for n, a in zip(node.input, given) if a is not None}
    single.weights = {n for n, a in single.arrays.items() if a.dtype == np.int64 and a.ndim < 2}
    try:
        made = single.model()
        onnx.checker.check_model(made, full_check=True)
        kind = made.graph.output[0].type.tensor_type.elem_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        result = reference(opset, node, given)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise NoDraw from error
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise NoDraw from error  # the reference does not compute this
    rounded = np.asarray(result.astype(dtype))
    if not is_float(rounded):
        return rounded, exact
    kept = np.array_equal(rounded.astype(np.float64), result)
    return rounded, exact and kept and node.op_type not in ROUNDED and _short(node, given)


def _short(node: Any, given: Sequence[Array | None]) -> bool:
    """Whether sums of a node are exact in any order: few terms of few bits."""
    if node.op_type not in SUMS:
        return True
    terms = [a.astype(np.float64) for a in given if a is not None and is_float(a)]
    if any(not np.array_equal(t * 4, np.rint(t * 4)) for t in terms):
        return False
    largest = [max(float(np.abs(t).max(initial=0)), 1.0) for t in terms]
    return float(np.prod(largest[:2])) * 16 * max(t.size for t in terms) < 2**22


def order_of_sum(node: Any, given: Sequence[Array | None]) -> float:
    """Roundings by which sums of a node in two orders may differ: as many as the root of terms."""
    if node.op_type not in SUMS:
        return 0.0
    return math.sqrt(max(a.size for a in given if a is not None))


def values_of(drawn: Drawn, exact: Set[str], noise: Any = None) -> dict[str, Array]:
    """All values of a graph; with `noise`, what is not exact moves by some roundings."""
    values: dict[str, Any] = dict(drawn.arrays)

    def moved(a: Array | None, size: float) -> Array | None:
        if a is None or not is_float(a):
            return a
        far = a.astype(np.float64)
        size *= max(epsilon(a), LEAST_NOISE)
        return np.asarray(far * (1 + size * noise.uniform(-1, 1, a.shape)))

    for node in drawn.nodes:
        given = [values.get(n) for n in node.input]
        name = node.output[0]
        before, _ = evaluate(drawn.opset, node, given, True)
        if noise is not None and name not in exact:
            result = reference(drawn.opset, node, [moved(a, 1) for a in given])
            roundings = 2 + order_of_sum(node, given) / 8
            with np.errstate(all="ignore"):
                before = np.asarray(moved(result.astype(before.dtype), roundings)).astype(
                    before.dtype
                )
                if node.op_type == "LogSoftmax":  # near 0, the rounding of a logarithm near 0
                    far = before.astype(np.float64)
                    far += epsilon(before) * noise.uniform(-1, 1, far.shape)
                    before = far.astype(before.dtype)
        values[name] = before
    return values


def exact_names(drawn: Drawn) -> set[str]:
    exact = set(drawn.arrays) | {""}
    values: dict[str, Array] = dict(drawn.arrays)
    for node in drawn.nodes:
        result, sure = evaluate(
            drawn.opset, node, [values.get(n) for n in node.input], set(node.input) <= exact
        )
        values[node.output[0]] = result
        if sure:
            exact.add(node.output[0])
    return exact


def bounds_of(drawn: Drawn) -> dict[str, tuple[Array, Array | None]]:
    """What each output must be, and how far off it may be (None: not at all)."""
    exact = exact_names(drawn)
    base = values_of(drawn, exact)
    if set(drawn.outputs) <= exact:
        return {n: (base[n], None) for n in drawn.outputs}
    made = {node.output[0]: node for node in drawn.nodes}
    runs = [values_of(drawn, exact, np.random.default_rng(k)) for k in range(3)]
    found: dict[str, tuple[Array, Array | None]] = {}
    for n in drawn.outputs:
        middle = base[n]
        if n in exact or not is_float(middle):
            found[n] = (middle, None)
            continue
        with np.errstate(all="ignore"):
            far = middle.astype(np.float64)
            off = np.zeros(far.shape)
            for run in runs:
                apart = np.abs(run[n].astype(np.float64) - far)
                off = np.maximum(off, np.where(run[n] == middle, 0, apart))
            node = made[n]
            roundings = 8 + 2 * order_of_sum(node, [base.get(i) for i in node.input])
            off = 16 * off + roundings * epsilon(middle) * np.abs(far)
            off += 8 * float(ml_dtypes.finfo(middle.dtype).smallest_subnormal)
            same = [np.isnan(run[n].astype(np.float64)) == np.isnan(far) for run in runs]
            size = np.abs(far)
            largest = np.max(size, initial=0.0, where=np.isfinite(size))
            # a quotient by what may be 0: as uncertain as it is large, it may be anything
            sound = (off <= np.maximum(size, UNSOUND * largest)) | ~np.isfinite(far)
            known = np.all([*same, sound, np.isfinite(off) | ~np.isfinite(far)], axis=0)
        found[n] = (middle, np.where(known, off, np.inf))
    return found


def difference(got: Array, wanted: Array, off: Array | None) -> str | None:
    """How a result differs from what it must be."""
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return f"is {got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    a, b = (np.asarray(x.astype(np.float64) if is_float(x) else x) for x in (got, wanted))
    if off is None:
        bad = ~((a == b) | ((a != a) & (b != b)))
    else:
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= off
        bad = ~((a == b) | near | (np.isnan(a) & np.isnan(b)) | np.isinf(off))
    if not bad.any():
        return None
    where = tuple(int(k) for k in np.argwhere(bad)[0])
    limit = "exactly" if off is None else f"+- {off[where]:.3g}"
    return f"has {got[where]!r} at {where}, not {wanted[where]!r} {limit}; {int(bad.sum())} differ"


def judge(data: bytes, inputs: Mapping[str, Array], target: str) -> tuple[str, Any]:
    """("ran", outputs), or what happened instead, and its text. Runs in a process of its own."""
    stage = "import"
    try:
        imported = graph.load_onnx(data)
        stage = "compile"
        net = graph.compile(imported, target)
        stage = "run"
        return "ran", net.run(inputs)
    except TilewrightError as error:
        return f"refused at {stage}", str(error)
    except BaseException as error:
        return f"FOUND at {stage}", f"{type(error).__name__}: {error}"


def by_runtime(drawn: Drawn) -> Array | None:
    """The output of a graph by ONNX Runtime; None where it refuses it."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    for opset in (drawn.opset, 21):  # it does not know the newest
        model = copy.copy(drawn)
        model.opset = min(opset, drawn.opset)
        try:
            session = ort.InferenceSession(
                model.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return np.asarray(session.run(None, drawn.inputs())[0])
        except Exception:
            continue
    return None


class Fuzzer:
    """Draws and judges; `counts` says what was drawn and what became of it."""

    def __init__(self, target: str = "llvm") -> None:
        self.target = target
        self.worker = Worker()
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    def draw(self, seed: int) -> Drawn:
        rng = random.Random(seed)
        return Draws(rng, evaluate, OPERATORS).graph(rng.choice((1, 1, 2, 3, 5, 8, 12)))

    def problem(self, drawn: Drawn, bounds: Any = None) -> str | None:
        """What is wrong with what becomes of a graph."""
        model = drawn.model()
        inputs = drawn.inputs()
        try:
            outcome, value = self.worker.ask(
                judge, (model.SerializeToString(), inputs, self.target), SECONDS
            )
        except Dead as error:
            self.worker.close()
            self.worker = Worker()
            return str(error)
        if outcome != "ran":
            self.refusals[f"{outcome}: {value.splitlines()[0][:110]}"] += 1
            return f"{outcome}: {value}"
        for name, (wanted, off) in (bounds or bounds_of(drawn)).items():
            text = difference(value[name], wanted, off)
            if text is None:
                continue
            theirs = by_runtime(only(drawn, [name]))
            if theirs is not None and difference(value[name], theirs, off) is None:
                self.counts["the reference differs from ONNX Runtime and from us"] += 1
                continue
            return f"{name} {text}"
        return None

    def run(self, seed: int) -> tuple[Drawn, str] | None:
        drawn = self.draw(seed)
        if not drawn.outputs:
            return None
        self.counts["graphs"] += 1
        self.counts["nodes"] += len(drawn.nodes)
        for node in drawn.nodes:
            self.counts[f"op {node.op_type}"] += 1
        for kind in {str(a.dtype) for a in drawn.arrays.values()}:
            self.counts[f"type {kind}"] += 1
        text = self.problem(drawn)
        return None if text is None else self.shrunk(drawn, text)

    def shrunk(self, drawn: Drawn, text: str, attempts: int = 40) -> tuple[Drawn, str]:
        """The same finding with fewer outputs and nodes: values become inputs."""
        values = values_of(drawn, set())
        queue = [only(drawn, [node.output[0]]) for node in drawn.nodes]
        queue += [cut(drawn, node.output[0], values) for node in reversed(drawn.nodes)]
        while queue and attempts:
            attempts -= 1
            smaller = queue.pop(0)
            if len(smaller.nodes) >= len(drawn.nodes):
                continue
            found = self.problem(smaller)
            if found is not None:
                drawn, text = smaller, found
                queue = [cut(drawn, node.output[0], values) for node in reversed(drawn.nodes)]
        return drawn, text

    def close(self) -> None:
        self.worker.close()


def only(drawn: Drawn, outputs: Sequence[str]) -> Drawn:
    """The part of a graph that some outputs need."""
    needed, nodes = set(outputs), []
    for node in reversed(drawn.nodes):
        if needed & set(node.output):
            needed |= set(node.input)
            nodes.append(node)
    arrays = {k: a for k, a in drawn.arrays.items() if k in needed}
    return Drawn(drawn.opset, nodes[::-1], arrays, drawn.weights & set(arrays), list(outputs))


def cut(drawn: Drawn, name: str, values: Mapping[str, Array]) -> Drawn:
    """A graph that reads the array of one of its values as an input."""
    smaller = copy.copy(drawn)
    smaller.nodes = [n for n in drawn.nodes if n.output[0] != name]
    smaller.arrays = {**drawn.arrays, name: values[name]}
    kept = [n for n in drawn.outputs if n != name]
    return only(smaller, kept) if kept else drawn


def text_of(drawn: Drawn) -> str:
    lines = [f"opset {drawn.opset}"]
    for k, a in drawn.arrays.items():
        kind = "weight" if k in drawn.weights else "input"
        lines.append(f"  {kind} {k}: {a.dtype}{list(a.shape)} = {a.ravel()[:8].tolist()}")
    for n in drawn.nodes:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}
        lines.append(f"  {n.output[0]} = {n.op_type}({', '.join(n.input)}) {attrs or ''}")
    return "\n".join([*lines, f"  return {', '.join(drawn.outputs)}"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.graphs")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--stop-after", type=int, default=10)
    args = parser.parse_args()
    fuzzer, failures, progress = Fuzzer(args.target), 0, Progress(args.cases)
    for seed in range(args.seed, args.seed + args.cases):
        found = fuzzer.run(seed)
        if found is not None:
            failures += 1
            print(f"seed {seed}: {found[1][:600]}\n{text_of(found[0])}", flush=True)
            if failures >= args.stop_after:
                break
        progress.tell(seed + 1 - args.seed, failures)
    fuzzer.close()
    for what, n in [*sorted(fuzzer.counts.items()), *fuzzer.refusals.most_common(30)]:
        print(f"{n:7}  {what}")
    print(f"{failures} findings; operator sets 7 to {NEWEST}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
