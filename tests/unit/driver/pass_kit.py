"""What tests of passes look for in programs, and how they run them."""

from typing import Any

import tilewright as tvm
from tilewright import tir


def nodes(node: Any, kind: type) -> list[Any]:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(node, found.append)
    return [x for x in found if type(x) is kind]


def run(func: Any, *arrays: Any) -> list[Any]:
    """The arrays after the function was called with them."""
    given = [tvm.nd.array(a) for a in arrays]
    tvm.build(func)(*given)
    return [a.numpy() for a in given]
