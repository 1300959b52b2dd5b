"""A name for this version of the compiler, for cache keys."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def compiler_fingerprint() -> str:
    """Hash of the package's own source files: differs wherever the compiler may."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        stat = path.stat()
        digest.update(f"{path.relative_to(root)}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:20]
