"""Short ways to write loop programs in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.unit.lowering.evaluator import run
from tilewright.loopir import expr as E
from tilewright.loopir import stmt as S
from tilewright.loopir.buffer import Buffer
from tilewright.loopir.iter import IterVar
from tilewright.loopir.verify import verify
from tilewright.loopir.visit import walk
from tilewright.lowering.options import LowerOptions

K = S.ForKind


def loop(name: str, extent: Any, body_of: Callable[..., S.Stmt], kind: int = K.SERIAL) -> S.For:
    var = E.Var(name)
    return S.For(var, 0, extent, kind, body_of(var))


def function(body: S.Stmt, *buffers: Buffer, scalars: tuple[E.Var, ...] = ()) -> S.PrimFunc:
    params = [E.Var(b.name, "handle") for b in buffers]
    return S.PrimFunc((*params, *scalars), body, None, dict(zip(params, buffers)))


def thread(tag: str) -> IterVar:
    return IterVar(None, E.Var(tag), IterVar.ThreadIndex, tag)


def nodes(where: Any, kind: type) -> list[Any]:
    """Nodes of one type in a function or statement, in order."""
    body = where.body if isinstance(where, S.PrimFunc) else where
    return [x for x in walk(body) if type(x) is kind]


def lines(where: Any) -> list[str]:
    """The body's text without declarations of aliases."""
    text = str(where.body if isinstance(where, S.PrimFunc) else where)
    return [x for x in text.splitlines() if "T.Buffer(" not in x]


def checked(
    transform: Callable[[S.PrimFunc, LowerOptions], S.PrimFunc],
    func: S.PrimFunc,
    arrays: dict[str, np.ndarray],
    options: LowerOptions | None = None,
    **scalars: int,
) -> S.PrimFunc:
    """The transformed function, after a comparison of what both compute."""
    want = run(func, arrays, scalars)
    new = transform(func, options or LowerOptions())
    verify(new)
    got = run(new, arrays, scalars)
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=str(new))
    return new
