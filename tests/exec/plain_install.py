"""Programs as they run where tilewright was installed without any extra."""

from __future__ import annotations

import os
import re
from pathlib import Path

MODULES = (
    "PIL", "cryptography", "cuda", "distributed", "nvidia", "onnxruntime", "psycopg", "pyopencl",
    "sqlalchemy", "torch", "xgboost",
)  # fmt: skip
HIDE = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {MODULES!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""
USE = re.compile(
    rf"^\s*(?:import|from) (?:{'|'.join(MODULES)})\b|^from tilewright import .*\bauto",
    re.MULTILINE,
)


def uses_extras(program: Path) -> bool:
    """Whether a program does something else where an extra is installed."""
    return USE.search(program.read_text()) is not None


def plain_environment(folder: Path, search: str = "") -> dict[str, str]:
    """The environment of a Python that finds no module of an extra, nor do processes it starts.

    folder: where to write what hides them; search: folders of modules, as PYTHONPATH has them.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDE)
    path = os.pathsep.join(part for part in (str(folder), search) if part)
    return {**os.environ, "PYTHONPATH": path}
