"""The one large block of memory that compiled functions keep between calls.

A function with a large workspace takes the block out of the cell here and puts it back, so that its
pages need not be asked from the system at each call (codegen/llvm/workspace.py has the code). There
is at most one, of at most 512 MiB; others that are put back while it is there are freed.
"""

from __future__ import annotations

import ctypes

_cell = ctypes.c_void_p(None)
_where = ctypes.c_void_p(ctypes.addressof(_cell))


def cell() -> int:
    """Address of the cell, which holds a block or null."""
    return ctypes.addressof(_cell)


def address() -> int:
    """Address of the pointer to the cell, as compiled code knows it: `tw_workspace`."""
    return ctypes.addressof(_where)
