"""Steps of recurrent layers on GPUs: a launch each, or two, right in simt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.unit.topi.launches import SM80, counted
from tilewright import te, topi
from tilewright.base.dtype import parse
from tilewright.topi.nn.recurrent import Activation, Functions
from tilewright.topi.nn.recurrent_step import OneStep

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
SIGMOID: Activation = ("sigmoid", 0.0, 0.0)
TANH: Activation = ("tanh", 0.0, 0.0)
NAMES = {"RNN": (TANH,), "GRU": (SIGMOID, TANH), "LSTM": (SIGMOID, TANH, TANH)}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


class Made:
    """The third of four steps of a layer; of a GRU that resets before its product, what is kept
    of the state by a launch of its own."""

    def __init__(
        self, kind: str, batch: int, hidden: int, dtype: str, after: bool = False,
        lengths: bool = False, target: str = SM80,
    ) -> None:  # fmt: skip
        self.kind, self.hidden, self.after = kind, hidden, after
        gates, kept = GATES[kind], 2 if kind == "LSTM" else 1
        rng, number = np.random.default_rng(hidden), parse(dtype).numpy
        shapes = {
            "inputs": (4, batch, gates * hidden), "states": (1, batch, kept, hidden),
            "bias": (hidden,), "peepholes": (3 * hidden,),
        }  # fmt: skip
        self.values = {k: rng.uniform(-1, 1, s).astype(number) for k, s in shapes.items()}
        self.weights = (rng.uniform(-1, 1, (gates * hidden, hidden)) * hidden**-0.5).astype(number)
        self.lengths = np.arange(batch, dtype=np.int32) % 4 + 1 if lengths else None
        self.launches: list[list[tuple[int, int]]] = []
        self.result = self._run(dtype, target)

    def _run(self, dtype: str, target: str) -> Any:
        t = {k: te.placeholder(v.shape, dtype, k) for k, v in self.values.items()}
        number = te.placeholder((), "int32", "number")
        how = Functions(NAMES[self.kind], False, self.after)
        each, h = GATES[self.kind], self.hidden
        parts = [self.weights]
        if self.kind == "GRU" and not self.after:
            update, reset, last = (self.weights[g * h : (g + 1) * h] for g in range(each))
            parts = [reset, update, last]
        ws = {n: te.placeholder(p.shape, dtype, f"w{n}") for n, p in enumerate(parts)}
        more: dict[str, Any] = {"number": number}
        args = [(t["inputs"], self.values["inputs"]), (number, np.array(2, np.int32))]
        args.append((t["states"], self.values["states"]))
        if self.kind == "LSTM":
            more["peepholes"] = t["peepholes"]
            args.append((t["peepholes"], self.values["peepholes"]))
        if self.kind == "GRU" and self.after:
            more["state_bias"] = t["bias"]
            args.append((t["bias"], self.values["bias"]))
        if self.lengths is not None:
            more["lengths"] = te.placeholder(self.lengths.shape, "int32", "lengths")
            args.append((more["lengths"], self.lengths))
        weights = dict(ws)
        if len(parts) > 1:
            first = OneStep(self.kind, t["inputs"], t["states"], {0: ws[0]}, how, number=number)
            kept = first.kept_state()
            taken = self._computed(kept, [*args[:3], (ws[0], parts[0])], target)
            more["kept"] = te.placeholder(taken.shape, dtype, "kept")
            args.append((more["kept"], taken))
            weights = {n: w for n, w in ws.items() if n}
        args += [(w, parts[n]) for n, w in weights.items()]
        step = OneStep(self.kind, t["inputs"], t["states"], weights, how, **more)
        return self._computed(step.states(), args, target)

    def _computed(self, out: Any, args: Any, target: str) -> Any:
        f = tw.build(topi.default_schedule(out, target), [*(t for t, _ in args), out], target)
        result = np.full([int(d) for d in out.shape], 77, parse(out.dtype).numpy)
        (report,) = f.run_simt(*(a for _, a in args), result).values()
        assert not report.findings and report.bank_conflicts <= 1.1
        self.launches.append(counted(f))
        return result

    def wanted(self) -> Any:
        v, h = {k: x.astype(np.float64) for k, x in self.values.items()}, self.hidden
        before, w = v["states"][0], self.weights.astype(np.float64)
        x = v["inputs"][2].reshape(len(before), -1, h)
        own = (before[:, 0] @ w.T).reshape(x.shape)
        if self.kind == "RNN":
            found = np.tanh(x + own)[:, 0][:, None]
        elif self.kind == "LSTM":
            p = v["peepholes"].reshape(3, h)
            i, o, f, c = (x + own).transpose(1, 0, 2)
            cell = before[:, 1] * sigmoid(f + p[2] * before[:, 1])
            cell = cell + sigmoid(i + p[0] * before[:, 1]) * np.tanh(c)
            found = np.stack([sigmoid(o + p[1] * cell) * np.tanh(cell), cell], 1)
        else:
            z, r = (sigmoid((x + own)[:, n]) for n in (0, 1))
            if self.after:
                moved = r * (own[:, 2] + v["bias"])
            else:
                moved = (r * before[:, 0]) @ w[2 * h :].T
            found = ((1 - z) * np.tanh(x[:, 2] + moved) + z * before[:, 0])[:, None]
        if self.lengths is not None:
            found = np.where((self.lengths > 2)[:, None, None], found, before)
        return found[None]


SIZES = [(1, 1), (1, 37), (3, 64), (5, 40), (2, 197), (16, 8)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("batch", "hidden"), SIZES)
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "GRU after"])
def test_steps(kind: str, batch: int, hidden: int, dtype: str) -> None:
    made = Made(kind.split()[0], batch, hidden, dtype, "after" in kind, batch > 1)
    assert len(made.launches) == (2 if kind == "GRU" else 1) and all(
        len(found) == 1 for found in made.launches
    )
    off = 3e-6 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(made.result.astype(np.float64), made.wanted(), rtol=off, atol=off)


@pytest.mark.parametrize(
    ("kind", "batch", "hidden", "launch"),
    [
        ("LSTM", 1, 512, (256, 256)),
        ("LSTM", 8, 512, (512, 256)),
        ("LSTM", 1, 1024, (512, 256)),
        ("GRU", 1, 512, (128, 128)),
        ("RNN", 2, 1000, (250, 256)),
        ("LSTM", 1, 131, (131, 128)),
    ],
)
def test_columns_of_the_state_are_those_of_many_blocks(
    kind: str, batch: int, hidden: int, launch: tuple[int, int]
) -> None:
    inputs = te.placeholder((4, batch, GATES[kind] * hidden), "float16", "inputs")
    states = te.placeholder((1, batch, 2 if kind == "LSTM" else 1, hidden), "float16", "states")
    w = {n: te.placeholder((hidden, hidden), "float16", f"w{n}") for n in range(3)}
    if kind == "LSTM":
        w = {0: te.placeholder((4 * hidden, hidden), "float16", "w")}
    number, kept = te.placeholder((), "int32"), te.placeholder((1, batch, hidden), "float16")
    step = OneStep(kind, inputs, states, w, Functions(NAMES[kind]), number=number, kept=kept)
    out = step.states()
    used = [*(w.values() if kind == "LSTM" else [w[1], w[2], kept] if kind == "GRU" else [w[0]])]
    f = tw.build(topi.default_schedule(out, SM80), [inputs, states, number, *used, out], SM80)
    assert counted(f) == [launch]
    source = f.imported_modules[0].get_source()
    assert hidden % 8 or "tw_load_float16x8(w" in source, "loads of 128 bits"
