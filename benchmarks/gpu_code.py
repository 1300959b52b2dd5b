"""What the code of GPU kernels is made of, beside what good code is made of, without a GPU.

    python -m benchmarks.gpu_code [--only NAME ...] [--arch ARCH ...] [--results FILE] [--json]
    python -m benchmarks.gpu_code --draw SEED COUNT ...     # of gpu_code_drawn.py, not of the list
    python -m benchmarks.gpu_code --operators SEED COUNT ...    # of gpu_code_operators.py
    python -m benchmarks.gpu_code --attention ...    # of gpu_code_attention.py

Compiles each kernel of gpu_code_cases.py for each architecture, runs a small size of the same
schedule in simt against NumPy, and says of each criterion whether it holds:

    spills   no register is spilled, no array is in local memory (bytes of stack and of spills)
    wide     global accesses have 128 bits where rows of the large arrays start at multiples of 16
             bytes (percent of the instructions); loads of a kernel that reads nothing but small
             operands whose rows start elsewhere do not count: no vector begins where those do;
             copies of tiles (TMA, UTMALDG) are wide
    async    loops that fill shared memory do so by asynchronous copies, of vectors (LDGSTS) or of
             tiles (instructions)
    banks    at most 1.1 turns an access of shared memory, by simt's counter
    tensor   products of types that tensor cores take are made by them (instructions)
    share    80 percent of a product's arithmetic in its hottest loop are FFMA or instructions of
             tensor cores; where no loop is left, of all between the first and the last of them;
             an instruction of a warp group counts as those of a warp that it stands for
    waits    products of warp groups (sm_90a) do not wait for each other: how often ptxas says that
             it makes them (C7510 and those after)

With --results what is in the file is kept and the rest added. Needs NVRTC and nvdisasm.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.gpu_code_attention import ATTENTION_CASES
from benchmarks.gpu_code_cases import CODE_CASES, CodeCase
from benchmarks.gpu_code_drawn import drawn
from benchmarks.gpu_code_operators import drawn_operators
from tilewright.base.dtype import parse
from tilewright.report.sass import (
    GROUPS,
    Static,
    arithmetic_share,
    compiled,
    tensor_instructions,
)

ARCHS = ("sm_80", "sm_90")
CRITERIA = ("spills", "wide", "async", "banks", "tensor", "share", "waits")
MOST_TURNS = 1.1
LEAST_SHARE = 80.0
LEAST_WIDE = 50.0  # of the instructions: edges and single results are narrow
_TILES = {"LDG": "UTMALDG", "STG": "UTMASTG"}  # copies of tiles to and from shared memory
_LARGE = 8  # an array that has so small a part of all bytes does not count


def measure(case: CodeCase, arch: str) -> dict[str, Any]:
    """A row of the table: of each criterion a figure, and whether it holds; null where it does not
    apply."""
    target = tw.Target(f"cuda -arch={arch}")
    schedule, args = case.program(target, *case.size)
    built = tw.build(schedule, args, target, name="f")
    kernels = compiled(built, arch)
    source = built.imported_modules[0].get_source()
    main = max(kernels, key=lambda s: (*_products(s), s.loop.total(), s.everything.total()))
    row: dict[str, Any] = {"kernel": case.name, "arch": arch, "kernels": len(kernels)}
    row["registers"] = max(s.registers for s in kernels)
    row["blocks"] = min(s.blocks for s in kernels)
    row["loop"] = dict((main.loop or main.products).most_common())
    row["looped"] = bool(main.loop)
    verdicts = {
        "spills": _spills(kernels),
        "wide": _wide(kernels, args, source),
        "async": _async(kernels),
        "banks": _banks(case, target),
        "tensor": _tensor(case, main),
        "share": _share(case, main),
        "waits": _waits(kernels),
    }
    row["criteria"] = {k: None if v is None else list(v) for k, v in verdicts.items()}
    row["misses"] = [k for k, v in verdicts.items() if v is not None and not v[1]]
    return row


def _products(s: Static) -> tuple[int, int]:
    """Instructions of tensor cores, and FFMA: what tells a product from what prepares it."""
    return tensor_instructions(s), s.count("FFMA")


Verdict = tuple[float, bool] | None
_ran: dict[tuple[str, str], Any] = {}  # reports of simt


def _spills(kernels: Sequence[Static]) -> Verdict:
    found = sum(s.stack + s.spills for s in kernels)
    local = sum(s.count("LDL") + s.count("STL") for s in kernels)
    return found, found == 0 and local == 0


def _wide(kernels: Sequence[Static], args: Sequence[Any], source: str) -> Verdict:
    """Over loads and stores the smaller share; arrays in between are those of this library."""
    sizes = [prod(int(d) for d in a.shape) * parse(a.dtype).nbytes for a in args]
    odd = {a.name for a in args[:-1] if _line(a) % 16 and _bytes(a) * _LARGE < sum(sizes)}
    even = [s for s in kernels if not set(read_by(source, s.name)) <= odd]
    shares = []
    for which, name, ones in ((args[:-1], "LDG", even), (args[-1:], "STG", kernels)):
        large = [a for a in which if _bytes(a) * _LARGE >= sum(sizes)]
        if not large or any(_row(a) % 16 for a in large):
            continue
        count = sum(s.count(name) for s in ones)
        count -= sum(s.count("LDGDEPBAR") for s in ones if name == "LDG")
        wide = sum(s.count(f"{name}..128") for s in ones)
        tiles = sum(s.count(_TILES[name]) for s in ones)
        count, wide = count + tiles, wide + tiles
        shares.append(100.0 * wide / count if count else 0.0)
    if not shares:
        return None
    return min(shares), min(shares) >= LEAST_WIDE


def read_by(source: str, kernel: str) -> list[str]:
    """The arrays that a kernel of CUDA source only reads."""
    head = re.search(rf" {kernel}\(([^)]*)\)", source)
    if head is None:
        return []
    plain = re.findall(r"const [\w ]+\* __restrict__ (\w+)", head[1])
    return [*plain, *re.findall(r"tw_tensor_map (\w+)_map", head[1])]


def _bytes(a: Any) -> int:
    return prod(int(d) for d in a.shape) * parse(a.dtype).nbytes


def _row(a: Any) -> int:
    """Bytes of a row."""
    return int(a.shape[-1]) * parse(a.dtype).nbytes


def _line(a: Any) -> int:
    """Bytes of so many of the last dimensions as a vector needs: taps are no row."""
    nbytes = parse(a.dtype).nbytes
    for size in reversed(a.shape):
        nbytes *= int(size)
        if nbytes >= 16:
            break
    return nbytes


def _async(kernels: Sequence[Static]) -> Verdict:
    # copies of tiles stand in a loop of their own, of one thread
    late = {s.name: s.count("LDGSTS", loop=True) + s.count("UTMALDG") for s in kernels}
    filling = [
        s
        for s in kernels
        if (s.count("STS", loop=True) and s.count("BAR", loop=True)) or late[s.name]
    ]
    if not filling:
        return None
    counts = [late[s.name] for s in filling]
    plain = sum(s.count("STS", loop=True) for s in filling)
    return min(counts), min(counts) > 0 and plain == 0


def _banks(case: CodeCase, target: tw.Target) -> Verdict:
    schedule, args = case.program(target, *case.small)
    built = tw.build(schedule, args, target, name="f")
    key = (case.name, built.imported_modules[0].get_source())
    if key not in _ran:  # architectures often get the same program
        inputs = case.inputs(args)
        out = np.zeros([int(d) for d in args[-1].shape], parse(args[-1].dtype).numpy)
        _ran[key] = built.run_simt(*inputs, out)
        case.check(out, inputs)
    reports = _ran[key]
    used = [r for r in reports.values() if "shared" in r.traffic and r.traffic["shared"].loads]
    if not used:
        return None
    worst = max(r.bank_conflicts for r in used)
    return round(worst, 3), worst <= MOST_TURNS


def _tensor(case: CodeCase, main: Static) -> Verdict:
    if not case.tensor_cores:
        return None
    count = tensor_instructions(main)
    return count, count > 0


def _share(case: CodeCase, main: Static) -> Verdict:
    if not case.product:
        return None
    share = arithmetic_share(main)
    return round(share, 1), share >= LEAST_SHARE


def _waits(kernels: Sequence[Static]) -> Verdict:
    if not any(s.count(name) for s in kernels for name in GROUPS):
        return None
    found = sum(s.losses for s in kernels)
    return found, found == 0


def cell(verdict: list[Any] | None) -> str:
    """A figure, with a mark where the criterion does not hold."""
    if verdict is None:
        return ""
    number, holds = verdict
    text = f"{number:g}"
    return text if holds else f"**{text}**"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown; misses are bold."""
    head = ("kernel", "arch", "registers", "blocks", *CRITERIA)
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for r in rows:
        if "error" in r:
            lines.append(
                f"| {r['kernel']} | {r['arch']} | error: {r['error']} |" + " |" * (len(head) - 3)
            )
            continue
        cells = [cell(r["criteria"][c]) for c in CRITERIA]
        numbers = [str(r["registers"]), str(r["blocks"])]
        lines.append("| " + " | ".join([r["kernel"], r["arch"], *numbers, *cells]) + " |")
    return "\n".join(lines)


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How many rows miss nothing, and what the others miss."""
    good = sum(r["misses"] == [] for r in rows)
    each = [f"{c} {sum(c in r['misses'] for r in rows)}" for c in (*CRITERIA, "error")]
    return f"{good} of {len(rows)} rows miss nothing; misses: {', '.join(each)}"


def run(cases: Sequence[CodeCase], archs: Sequence[str], results: Path | None) -> list[Any]:
    """The rows of all cases; those in the file of results are not made again."""
    known: dict[tuple[str, str], dict[str, Any]] = {}
    if results is not None and results.exists():
        rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
        known = {(r["kernel"], r["arch"]): r for r in rows}
    wanted = [(c, arch) for c in cases for arch in archs]
    for number, (case, arch) in enumerate(wanted, 1):
        key = (case.name, arch)
        if key in known:
            continue
        start = time.perf_counter()
        try:
            row = measure(case, arch)
        except (tw.TilewrightError, ValueError) as error:
            text = str(error).splitlines()[0]
            row = {"kernel": case.name, "arch": arch, "error": text, "misses": ["error"]}
        known[key] = row
        seconds = time.perf_counter() - start
        said = ", ".join(row["misses"]) or "ok"
        print(
            f"[{number}/{len(wanted)}] {case.name} {arch}: {said} ({seconds:.1f} s)",
            file=sys.stderr,
        )
        if results is not None:
            _write(results, list(known.values()))
    return [known[c.name, a] for c, a in wanted]


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    text = json.dumps(
        {"tilewright": tw.__version__, "summary": summary(rows), "rows": rows}, indent=1
    )
    temporary = path.with_suffix(".part")
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_code")
    parser.add_argument("--only", nargs="+", default=[""], help="parts of kernels' names")
    parser.add_argument("--arch", nargs="+", default=list(ARCHS))
    parser.add_argument("--results", type=Path, help="a JSON file that is gone on with")
    parser.add_argument("--draw", nargs=2, type=int, metavar=("SEED", "COUNT"), help="by chance")
    parser.add_argument(
        "--operators", nargs=2, type=int, metavar=("SEED", "COUNT"), help="by chance, of most kinds"
    )
    parser.add_argument("--attention", action="store_true", help="attention in one kernel")
    parser.add_argument("--json", action="store_true", help="print rows as JSON, not as a table")
    options = parser.parse_args(argv)
    known = ATTENTION_CASES if options.attention else CODE_CASES
    if options.draw or options.operators:
        known = (
            *drawn(*(options.draw or (0, 0))),
            *drawn_operators(*(options.operators or (0, 0))),
        )
    cases = [c for c in known if any(part in c.name for part in options.only)]
    rows = run(cases, options.arch, options.results)
    print(json.dumps(rows, indent=1) if options.json else table(rows))
    print(summary(rows), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
