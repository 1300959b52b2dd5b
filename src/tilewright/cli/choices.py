"""Words that options choose from, apart from the commands, so that help needs none of them."""

from __future__ import annotations

FORMATS = ("network", "so", "o")
"""What `compile` writes."""

LIBRARY_THREADS = ("own", "caller", "none")
"""Who runs the loops of a library of C: `THREADS` of driver/c_library.py, which takes longer to
load than help should take."""

STAGES = ("graph", "groups", "tir", "lowered", "source", "asm")
"""What `inspect` shows, in this order."""

SYNONYMS = {"sass": "asm"}
"""Other words for stages: what NVIDIA calls its machine code."""

PEER_NAMES = ("onnxruntime", "openvino")
"""The runtimes of peers.py."""
