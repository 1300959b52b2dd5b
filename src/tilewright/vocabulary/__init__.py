"""The inventory of TVM's names: which mean the same here, which differ and how, which are absent.

The files beside this one hold a name on a line, sorted, without the leading ``tvm.``:

    NAME | same
    NAME | differs | how
    NAME | absent | why, and what instead

Methods stand as ``te.Stage.vectorize``; a name that ends in ``.*`` is a whole module with all that
is below it. Lines that are empty or begin with # say nothing.
"""

from .entries import Entry, InventoryError, find, inventory, read_entries, refusal

__all__ = ["Entry", "InventoryError", "find", "inventory", "read_entries", "refusal"]
