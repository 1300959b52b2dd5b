"""A name for this version of the compiler, for cache keys."""

from __future__ import annotations

import hashlib
import os
from functools import cache

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@cache
def compiler_fingerprint() -> str:
    """Hash of the package's own sources, by what they say: dates tell nothing of a package that was
    unpacked with those of an archive."""
    return hash_sources(_ROOT)


def hash_sources(root: str) -> str:
    """Hash of names and contents of the sources under a folder."""
    digest = hashlib.sha256()
    for folder, inner, names in os.walk(root):
        inner.sort()
        for name in sorted(names):
            if name.endswith((".py", ".ll")):
                path = os.path.join(folder, name)
                with open(path, "rb", buffering=0) as file:
                    data = file.read()
                digest.update(f"{os.path.relpath(path, root)}|{len(data)}\n".encode() + data)
    return digest.hexdigest()[:20]
