"""Default schedules for GPUs under random answers: `python -m tests.fuzz.gpu_library --cases N`.

An operator of a shape, a type and an architecture by chance, what follows it too; its default
schedule is made, and some of what it asks is answered otherwise (topi/schedules/decisions.py):
tiles, stages of copies, how many products a block makes, the order of blocks, clusters of them.
Tensor cores, wgmma and TMA, cp.async and copies through registers with zeros at edges, padded tiles
and stores through shared memory all come up so. Some sizes are variables; what is built for them
runs for several values, on arrays with gaps, or as in a network: with likely values, on compact
arrays. Kernels run in simt, where each race, unwritten value and access out of bounds is a failure,
and results are compared with te_eval_bound. Attention is drawn by gpu_attention.py; with
`--attention` nothing else is.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from tests.cuda_text import kernels_as_text
from tests.fuzz.gpu_attention import Plain, bound_of, drawn_attention, values_of
from tests.fuzz.progress import Progress
from tilewright import te, tir, topi
from tilewright.base.dtype import parse
from tilewright.interp.te_bound import te_eval_bound
from tilewright.loopir.expr import Var, const, convert
from tilewright.loopir.subst import substitute
from tilewright.target.target import Target
from tilewright.topi.schedules.decisions import Decisions, NotOffered, Value
from tilewright.topi.schedules.default import default_schedule
from tilewright.topi.schedules.machine import likely_sizes

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 40, 48, 64, 67, 72, 96, 101, 128, 131)
CHANNELS = (1, 3, 4, 5, 8, 10, 16, 17, 23, 24, 32)
SUMS = {"float32": "float32", "float16": "float32", "bfloat16": "float32", "int8": "int32"}
ARCHES = ("sm_70", "sm_75", "sm_75", "sm_80", "sm_80", "sm_86", "sm_90", "sm_90a")
MOST = 3e6  # products of a case, in numbers of them
TRIES = 40  # drawings of sizes that are few enough
VALUES = (1, 2, 7, 16, 30, 65, 127, 129)  # of sizes that are not known before a call
LIKELY = (1, 3, 4, 16, 64, 128, 128, 512)

Drawn = tuple[str, list[Any], Any]
Open = Callable[[int], Any]  # a size, or by chance a variable that has this value in the first call


@dataclass
class Case:
    """What is computed, for which target, and how its questions are answered; `plain`: the form of
    attention that errors are judged by."""

    text: str
    inputs: list[Any]
    out: Any
    target: Target
    rng: random.Random
    values: dict[Any, int]  # of sizes that are variables
    plain: Plain | None = None
    likely: dict[Any, int] = field(default_factory=dict)
    """What a schedule takes for likely, as one of a network does, whose arrays are compact."""

    def schedule(self, given: dict[str, Value]) -> tuple[Any, Decisions]:
        """The default schedule where so much is answered, and what was asked."""
        decisions = Decisions(given)
        with likely_sizes(self.likely) if self.likely else nullcontext():
            return default_schedule(self.out, self.target, decisions), decisions

    def built(self, given: dict[str, Value]) -> Any:
        args = [*self.inputs, self.out]
        compact = {t: tir.decl_buffer(t.shape, t.dtype, t.name) for t in args}
        binds = compact if self.likely else None
        return tw.build(self.schedule(given)[0], args, self.target, name="fuzz", binds=binds)

    def answers(self) -> dict[str, Value]:
        """Some of what is asked, answered by chance: answers may raise new questions."""
        given: dict[str, Value] = {}
        for _ in range(2):
            for question, options in self.asked(given).items():
                if question not in given and self.rng.random() < 0.6:
                    given[question] = self.rng.choice(options)
        self.asked(given)
        return given

    def asked(self, given: dict[str, Value]) -> dict[str, tuple[Value, ...]]:
        """What is asked where so much is answered; an answer that another one leaves no room for
        is taken back."""
        while True:
            try:
                _, decisions = self.schedule(given)
            except NotOffered as error:
                del given[error.question]
            else:
                return decisions.asked


def _sizes(rng: random.Random, count: int, most: float, choices: Any = SIZES) -> list[int]:
    for _ in range(TRIES):
        sizes = [rng.choice(choices) for _ in range(count)]
        if np.prod(sizes, dtype=float) <= most:
            return sizes
    return [8] * count


def _matrix(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    m, n, k = _sizes(rng, 3, MOST / 8)
    if rng.random() < 0.15:  # long enough to be cut in parts
        m, n, k = min(m, 40), min(n, 72), rng.choice((256, 264, 520, 1024))
    elif rng.random() < 0.15:  # and enough of both for blocks to be clusters
        m, n, k = (rng.choice(some) for some in ((64, 65, 72, 128), (64, 72, 128), (264, 520)))
    batches = (0, 0, 0, 1, 2, 3) if m * n * k > 2e4 else (0, 0, 1, 3, 8, 24, 60)
    batch = rng.choice(batches) if m * n * k < MOST else 0
    turned = rng.random() < 0.5
    text = f"product {batch} x {m}x{n}x{k}{' turned' if turned else ''}"
    m, batch = opened(m), opened(batch) if batch else 0
    if rng.random() < 0.25:
        n = opened(n)
    if rng.random() < 0.15:
        k = opened(k)
    lead = () if isinstance(batch, int) and not batch else (batch,)
    a = te.placeholder((*lead, m, k), dtype, "a")
    b = te.placeholder((*lead, *((n, k) if turned else (k, n))), dtype, "b")
    sums = SUMS[dtype] if rng.random() < 0.7 or dtype == "int8" else None
    if lead:
        out = topi.nn.batch_matmul(a, b, None, sums, transpose_b=turned)
    else:
        out = (topi.nn.dense if turned else topi.nn.matmul)(a, b, out_dtype=sums)
    return text, [a, b], out


def _convolution(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    last, groups = rng.random() < 0.5, rng.choice((1, 1, 1, 1, 2, 3))
    taps = rng.choice((1, 1, 3, 3, 3, 5))
    stride: Any = rng.choice((1, 1, 2))
    dilation = 2 if taps > 1 and rng.random() < 0.15 else 1
    pad: Any = rng.choice((0, taps // 2, taps // 2))
    c, f = (rng.choice(CHANNELS) for _ in range(2))
    if rng.random() < 0.2:  # enough for warp groups
        last, groups, c, f = True, 1, rng.choice((40, 64, 72, 128)), rng.choice((32, 40, 64, 104))
    reach = dilation * (taps - 1) + 1
    h, w = (max(reach, rng.choice((3, 5, 7, 8, 9, 14, 16))) for _ in range(2))
    n = rng.choice((1, 1, 2))
    if rng.random() < 0.2:
        pad = [rng.choice((0, 1, taps // 2)) for _ in range(4)]
        stride = rng.choice(((1, 2), (3, 1)))
    one_each = c < 40 and rng.random() < 0.2
    filters = (1, taps, taps) if one_each else (c, taps, taps)
    many = c if one_each else groups * f
    data = (n, c if one_each else groups * c, h, w)
    kernel = (many, *filters)
    if last:
        data, kernel = (data[0], *data[2:], data[1]), (*kernel[2:], kernel[1], kernel[0])
        kernel = (*kernel[:2], kernel[3], 1) if one_each else kernel
    text = f"convolution {'NHWC' if last else 'NCHW'} {data} {kernel} stride {stride} pad {pad}"
    x = te.placeholder((opened(data[0]), *data[1:]), dtype, "x")
    k = te.placeholder(kernel, dtype, "k")
    how = (stride, pad, dilation)
    if one_each:
        sums = {"out_dtype": SUMS[dtype]}
        make = topi.nn.depthwise_conv2d_nhwc if last else topi.nn.depthwise_conv2d_nchw
        out = make(x, k, *how, **sums)
    elif groups > 1:
        make = topi.nn.group_conv2d_nhwc if last else topi.nn.group_conv2d_nchw
        out = make(x, k, *how, groups, SUMS[dtype])
    else:
        out = (topi.nn.conv2d_nhwc if last else topi.nn.conv2d_nchw)(x, k, *how, SUMS[dtype])
    return f"{text} dilation {dilation} groups {0 if one_each else groups}", [x, k], out


def _rows(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    lead: list[Any] = _sizes(rng, rng.choice((1, 2)), 200)
    length = rng.choice((*SIZES, 197, 256, 300, 1000, 1009, 1024, 2050))
    lead[-1] = opened(lead[-1])
    if rng.random() < 0.2:
        length = opened(length)
    x = te.placeholder((*lead, length), dtype, "x")
    kind = rng.choice(("softmax", "log_softmax", "layer_norm", "rms_norm"))
    if kind.endswith("softmax"):
        axis = rng.choice((-1, -1, 0))
        return f"{kind} {x.shape} axis {axis}", [x], getattr(topi.nn, kind)(x, axis)
    others = [te.placeholder((length,), dtype, f"w{n}") for n in range(2)]
    used = others if kind == "layer_norm" else others[:1]
    return f"{kind} {x.shape}", [x, *used], getattr(topi.nn, kind)(x, *used, [-1])


def _reduction(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    """Of some dimensions, one of which may be long enough to be cut in parts."""
    shape = _sizes(rng, rng.choice((1, 2, 3)), 2e4)
    if rng.random() < 0.4:
        at = rng.randrange(len(shape))
        others = np.prod(shape, dtype=float) / shape[at]
        shape[at] = rng.choice([n for n in (300, 1009, 4096, 20011) if n * others <= 6e4] or [197])
    axes = rng.choice((None, *(tuple(sorted(rng.sample(range(len(shape)), n + 1)))
                               for n in range(len(shape)))))  # fmt: skip
    kinds = ("max", "argmax", "argmin", "sum")
    kind = rng.choice(kinds[:-1] if dtype == "int8" else kinds)  # a sum would not fit
    text = f"{kind} {shape} axes {axes}"
    at = rng.randrange(len(shape))
    open_shape: list[Any] = [opened(n) if d == at else n for d, n in enumerate(shape)]
    x = te.placeholder(open_shape, dtype, "x")
    return text, [x], getattr(topi, kind)(x, axes, rng.random() < 0.3)


def _few_rows(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    """A product of as many rows as go down columns, or along rows, of weights."""
    m, n, k = rng.choice((1, 1, 2, 3, 4)), rng.choice(SIZES), rng.choice((*SIZES, 520, 1009, 2048))
    turned = rng.random() < 0.3
    a = te.placeholder((opened(m), k), dtype, "a")
    b = te.placeholder((n, k) if turned else (k, n), dtype, "b")
    out = (topi.nn.dense if turned else topi.nn.matmul)(a, b, out_dtype=SUMS[dtype])
    return f"product {m}x{n}x{k}{' turned' if turned else ''}", [a, b], out


def _pool(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    last = rng.random() < 0.5
    c, size = rng.choice(CHANNELS), rng.choice((5, 8, 14, 17))
    shape = (2, size, size + 1, c) if last else (2, c, size, size + 1)
    text = f"pool {shape}"
    x = te.placeholder((opened(shape[0]), *shape[1:]), dtype, "x")
    window, stride, kind = rng.choice((2, 3)), rng.choice((1, 2)), rng.choice(("max", "avg"))
    out = topi.nn.pool2d(
        x, (window,) * 2, (stride,) * 2, (1, 1), (window // 2,) * 4, kind,
        layout="NHWC" if last else "NCHW",
    )  # fmt: skip
    return f"{kind} {text} of {window} by {stride}", [x], out


def _moved(rng: random.Random, dtype: str, opened: Open) -> Drawn:
    """A tensor turned, or taken as it is."""
    shape = _sizes(rng, rng.choice((2, 3)), 2e4)
    order = rng.sample(range(len(shape)), len(shape))
    at = rng.randrange(len(shape))
    open_shape: list[Any] = [opened(n) if d == at else n for d, n in enumerate(shape)]
    x = te.placeholder(open_shape, dtype, "x")
    return f"moved {shape} {order}", [x], topi.transpose(x, order)


KINDS: tuple[Callable[..., Drawn], ...] = (
    _matrix, _matrix, _matrix, _convolution, _convolution, _convolution, _rows, _reduction,
    _few_rows, _pool, _moved,
)  # fmt: skip


def _ended(rng: random.Random, inputs: list[Any], out: Any) -> tuple[str, Any]:
    """What follows an operator, element by element."""
    end = rng.choice(("", "", "", "relu", "bias", "cast"))
    if end == "relu":
        out = topi.nn.relu(out)
    elif end == "bias" and out.shape:
        bias = te.placeholder((out.shape[-1],), out.dtype, "bias")
        inputs.append(bias)
        out = topi.nn.relu(topi.add(out, bias))
    elif end == "cast":
        out = topi.cast(out, "float16" if out.dtype == "float32" else "float32")
    return end, out


def _few(rng: random.Random, arch: str) -> str:
    """So few multiprocessors that blocks of warp groups have several tiles each."""
    if arch != "sm_90a" or rng.random() >= 0.6:
        return ""
    return f" -multi_processor_count={rng.randint(2, 9)}"


def drawn(seed: int, attention: bool = False) -> Case:
    """The case of a seed; of attention alone, if that is wanted."""
    rng = random.Random(seed)
    kind, arch = rng.choice((*KINDS, None)), rng.choice(ARCHES)
    if kind is None or attention:
        dtype = rng.choice(("float32", "float16", "float16" if arch == "sm_75" else "bfloat16"))
        few = _few(rng, arch)
        target = Target(f"cuda -arch={arch}{few}")
        text, inputs, out, plain = drawn_attention(rng, dtype, target)
        return Case(f"{text} {dtype} {arch}{few}", inputs, out, target, rng, {}, plain)
    types = ("float32", "float16", "float16", "bfloat16", "int8")
    dtype = rng.choice(types[:-1] if kind in (_rows, _pool) else types)
    if dtype == "bfloat16" and arch in ("sm_70", "sm_75"):
        dtype = "float16"
    values: dict[Any, int] = {}
    share = rng.choice((0.0, 0.7))

    def opened(n: int) -> Any:
        if rng.random() >= share:
            return n
        found = te.var(f"n{len(values)}")
        values[found] = n
        return found

    text, inputs, out = kind(rng, dtype, opened)
    end, out = _ended(rng, inputs, out)
    text = f"{text} {dtype} {arch} {end}"
    if values:
        text += f" open: {', '.join(map(str, values.values()))}"
    few = _few(rng, arch)
    case = Case(text + few, inputs, out, Target(f"cuda -arch={arch}{few}"), rng, values)
    if values and rng.random() < 0.5:
        case.likely.update((v, rng.choice(LIKELY)) for v in values)
        case.text += f" likely: {', '.join(map(str, case.likely.values()))}"
    return case


def _shape(t: Any, values: Mapping[Any, int]) -> list[int]:
    """A shape for values of variables."""
    table = {v: const(n, v.dtype) for v, n in values.items()}
    analyzer = tw.arith.Analyzer()
    return [int(analyzer.simplify(substitute(convert(n), table))) for n in t.shape]


def _array(t: Any, values: Mapping[Any, int], rng: np.random.Generator) -> Any:
    """Small whole numbers, whose products and sums are exact in any order, for most types."""
    return rng.integers(-3, 4, _shape(t, values)).astype(parse(t.dtype).numpy)


def one(seed: int, stats: Counter[str], attention: bool = False, text: bool = False) -> str | None:
    """What is wrong with a case; None if nothing is. `text`: of the text of its kernels, run as C++
    (tests/cuda_text), instead of their loop IR."""
    case = drawn(seed, attention)
    given: dict[str, Value] = {}
    try:
        given = case.answers()
        stats["answers"] += len(given)
        with kernels_as_text(case.target.arch) if text else nullcontext():
            wrong = _run(case, given, np.random.default_rng(seed), stats)
    except NotImplementedError:
        wrong = None
        stats["with instructions that no C++ stands for"] += 1
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:300]}"
    stats["cases"] += 1
    return None if wrong is None else f"seed {seed}, {case.text}, {given}: {wrong}"


def _run(case: Case, given: Any, rng: np.random.Generator, stats: Counter[str]) -> str | None:
    function = case.built(given)
    source = function.imported_modules[0].get_source()
    stats["on tensor cores"] += "mma" in source
    stats["with copies through registers"] += "_next[" in source
    stats["of open sizes"] += bool(case.values)
    stats["of likely sizes"] += bool(case.likely)
    stats["by warp groups"] += "wgmma" in source
    stats["in clusters"] += "__cluster_dims__" in source
    stats["of blocks that stay"] += "turn_copied" in source
    stats["of shared steps"] += "turn_low" in source
    several = [case.values]
    if case.values:
        several += [{v: case.rng.choice(VALUES) for v in case.values} for _ in range(2)]
        size = np.prod(_shape(case.out, case.values), dtype=float)
        several = [x for x in several if np.prod(_shape(case.out, x), dtype=float) < 4 * size + 4e3]
    for number, values in enumerate(several):
        gaps = number == 2 and not case.likely and case.rng.random() < 0.3
        wrong = _called(case, function, values, gaps, rng, stats)
        if wrong:
            return f"{wrong} (sizes {list(values.values())}{', with gaps' if gaps else ''})"
    return None


def _called(
    case: Case,
    function: Any,
    values: Mapping[Any, int],
    gaps: bool,
    rng: np.random.Generator,
    stats: Counter[str],
) -> str | None:
    """What is wrong with a call for these values of sizes; `gaps`: the first input has some between
    its elements."""
    if case.plain is None:
        feeds = {t: _array(t, values, rng) for t in case.inputs}
    else:
        feeds = {t: values_of(t, rng) for t in case.inputs}
    shape = _shape(case.out, values)
    if gaps and any(isinstance(d, Var) for d in case.inputs[0].shape):
        first, *others = feeds.values()
        wide = np.zeros((*first.shape[:-1], 2 * first.shape[-1]), first.dtype)
        wide[..., ::2] = first
        on = tw.simt(0)
        blank = tw.nd.empty(shape, case.out.dtype, on)
        args = [tw.nd.array(wide, on)[..., ::2], *(tw.nd.array(x, on) for x in others), blank]
        function.entry_func.simt()(*args)
        stats["with gaps"] += 1
    else:
        blank = tw.nd.empty(shape, case.out.dtype, tw.simt(0))
        reports = function.run_simt(*feeds.values(), blank)
        stats["with copies under way"] += any(r.async_copies for r in reports.values())
        findings = [f for r in reports.values() for f in r.findings]
        if findings:
            return f"simt: {findings[0]}"
    if case.plain is None:
        ((value, limit),) = te_eval_bound(case.out, feeds)
    else:
        stats["attention"] += 1
        value, limit = bound_of(case.plain, feeds, case.out.dtype)
    found = np.asarray(blank.numpy(), np.float64)
    if case.plain is not None:
        parts = np.abs(found - value)[limit > 0] / limit[limit > 0]
        name = f"percent of the bound of {case.out.dtype}"
        stats[name] = max(stats[name], round(100 * float(np.nanmax(parts, initial=0))))
    off = ~(np.abs(found - value) <= limit) & (found != value) & ~np.isinf(limit)
    if off.any():
        at = tuple(int(i) for i in np.argwhere(off)[0])
        return f"{int(off.sum())} of {off.size} differ, first at {at}: {found[at]} for {value[at]}"
    return None


def run(
    cases: int,
    seed: int,
    stop: int = 12,
    quiet: bool = True,
    attention: bool = False,
    text: bool = False,
) -> tuple[Counter[str], list[str]]:
    """Counts of what ran, and the reports of cases that failed (at most `stop`)."""
    stats: Counter[str] = Counter()
    failures: list[str] = []
    progress = Progress(cases, quiet)
    for i in range(cases):
        progress.tell(i, len(failures))
        report = one(seed * 1_000_003 + i, stats, attention, text)
        if report is not None:
            failures.append(report)
            if not quiet:  # a long run may be stopped before its end
                print(report, flush=True)
            if len(failures) >= stop:
                break
    return stats, failures


def main() -> int:
    parser = argparse.ArgumentParser(description="Run default schedules for GPUs in simt.")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--one", type=int, help="run the case of this seed alone")
    parser.add_argument("--attention", action="store_true", help="cases of attention alone")
    parser.add_argument("--text", action="store_true", help="run the text of kernels, as C++")
    args = parser.parse_args()
    if args.one is not None:
        print(one(args.one, Counter(), args.attention, args.text) or "passes")
        return 0
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    start = time.perf_counter()
    how = {"attention": args.attention, "text": args.text}
    stats, failures = run(args.cases, seed, quiet=False, **how)
    counts = ", ".join(f"{n} {name}" for name, n in sorted(stats.items()))
    print(f"seed {seed}: {counts}; {len(failures)} failures, {time.perf_counter() - start:.0f} s")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
