"""Long short-term memory, one step after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import TilewrightError
from ...loopir import op as O
from ...loopir.expr import const
from ...tensor.axes import reduce_axis
from ...tensor.compute import compute, placeholder
from ...tensor.reduce import sum as reduce_sum
from ...tensor.scan import scan
from ...tensor.tensor import Tensor
from ..utils import of_rank, simplify

Function = Callable[[Any], Any]


@of_rank(Xs=3, Wi=2, Wh=2)
def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: Tensor | None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Function = O.sigmoid,
    g_act: Function = O.tanh,
    h_act: Function = O.tanh,
    reverse: bool = False,
    weight_layout: str = "IFGO",
) -> tuple[Tensor, Tensor]:
    """Xs (steps, batch, inputs), Wi (4 * hidden, inputs), Wh (4 * hidden, hidden, or projected),
    Bi and Bh (4 * hidden,), the four gates in the order `weight_layout`; h_init and c_init (batch,
    hidden), 0 without them; proj (projected, hidden): what the state is made of the cells;
    p_i, p_f, p_o (batch, hidden): what gates see of the cell; `reverse`: from the last step on.

    Returns states (steps, batch, hidden or projected) and cells (steps, batch, hidden). All are
    floats of one type, which the results have. Hochreiter and Schmidhuber, Long Short-Term Memory,
    1997. Raises TilewrightError where weight_layout is no order of I, F, G, O.
    """
    if sorted(weight_layout) != sorted("IFGO"):
        raise TilewrightError(f"lstm: weight_layout {weight_layout!r} is no order of I, F, G, O")
    steps, batch, inputs = Xs.shape
    hidden = simplify(Wi.shape[0] // 4)
    width = hidden if proj is None else proj.shape[0]
    dtype = Xs.dtype
    places = {gate: weight_layout.index(gate) for gate in "IFGO"}
    ki = reduce_axis((0, inputs), "ki2h")
    fed: Tensor = compute(
        (simplify(steps * batch), Wi.shape[0]),
        lambda n, j: reduce_sum(Xs(n // batch, n % batch, ki) * Wi(j, ki), axis=ki),
        "Xi2h",
    )
    state = placeholder((steps + 1, batch, width), dtype, "h_state")
    cell = placeholder((steps + 1, batch, hidden), dtype, "c_state")

    def start(given: Tensor | None, size: Any, name: str) -> Tensor:
        zero = const(0, dtype)
        made: Tensor = compute(
            (1, batch, size), lambda _, b, i: zero if given is None else given(b, i), name
        )
        return made

    kh = reduce_axis((0, width), "kh2h")
    back: Tensor = compute(
        (steps + 1, batch, 4, hidden),
        lambda t, b, g, j: reduce_sum(state(t - 1, b, kh) * Wh(g * hidden + j, kh), axis=kh),
        "s_h2h",
    )

    def gate(which: str, t: Any, b: Any, j: Any) -> Any:
        g = places[which]
        row = g * hidden + j
        step = steps - t if reverse else t - 1
        value = fed(step * batch + b, row) + back(t, b, g, j)
        for bias in (Bi, Bh):
            value = value if bias is None else value + bias(row)
        return value

    def seen(peep: Tensor | None, value: Any, b: Any, j: Any, what: Any) -> Any:
        return value if peep is None else value + peep(b, j) * what

    def next_cell(t: Any, b: Any, j: Any) -> Any:
        old = cell(t - 1, b, j)
        put = f_act(seen(p_i, gate("I", t, b, j), b, j, old))
        kept = f_act(seen(p_f, gate("F", t, b, j), b, j, old))
        return kept * old + put * g_act(gate("G", t, b, j))

    shape = (steps + 1, batch, hidden)
    cells: Tensor = compute(shape, next_cell, "next_c")
    states: Tensor = compute(
        shape,
        lambda t, b, j: (
            f_act(seen(p_o, gate("O", t, b, j), b, j, cells(t, b, j))) * h_act(cells(t, b, j))
        ),
        "next_h",
    )
    if proj is not None:
        full, kr = states, reduce_axis((0, hidden), "kh2p")
        states = compute(
            (steps + 1, batch, width),
            lambda t, b, j: reduce_sum(full(t, b, kr) * proj(j, kr), axis=kr),
            "next_h_proj",
        )
    begin = [start(h_init, width, "h_init"), start(c_init, hidden, "c_init")]
    all_h, all_c = scan(begin, [states, cells], [state, cell], name="lstm_scan")
    found: list[Tensor] = [
        compute((steps, batch, size), lambda t, b, j, x=x: x(t + 1, b, j), name)
        for x, size, name in ((all_h, width, "hidden_states"), (all_c, hidden, "cell_states"))
    ]
    return found[0], found[1]
