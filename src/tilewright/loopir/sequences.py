"""Sequences and maps by TVM's names: tuples and dicts are what programs hold here."""

Array: type = tuple
Map: type = dict
