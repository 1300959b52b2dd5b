"""`tvm.ir.container`: sequences are tuples and maps are dicts here."""

Array: type = tuple
Map: type = dict

__all__ = ["Array", "Map"]
