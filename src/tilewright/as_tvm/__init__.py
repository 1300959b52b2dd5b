"""`import tilewright.as_tvm` makes `import tvm` mean tilewright, in this process and its children.

    python -m tilewright.as_tvm SCRIPT [ARGS]
    python -m tilewright.as_tvm -m pytest [ARGS]

run a program so without touching it. ``tvm.te.Tensor is tilewright.te.Tensor``: there is one set of
modules and classes, under two names. ``tvm.__version__`` is that of the TVM whose vocabulary is
spoken, so that comparisons in scripts come out as they were meant.
"""

from .finder import TVM_VERSION, install

__all__ = ["TVM_VERSION", "install"]

install()
