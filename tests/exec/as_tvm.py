"""Run a program in which ``tvm`` and ``tvm.x.y`` are tilewright's modules: as_tvm.py PROGRAM.

Examples of this repository import tilewright by name; here they are read as TVM's users write them.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


class TvmFinder(MetaPathFinder, Loader):
    """Finds ``tvm`` and everything below it, and puts tilewright's module in its place."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "tvm" else None

    def exec_module(self, module: ModuleType) -> None:
        real = module.__name__.replace("tvm", "tilewright", 1)
        sys.modules[module.__name__] = importlib.import_module(real)


if __name__ == "__main__":
    sys.meta_path.insert(0, TvmFinder())
    program = Path(sys.argv[1])
    source = program.read_text().replace("import tilewright as tvm", "import tvm")
    source = source.replace("from tilewright import", "from tvm import")
    sys.argv = sys.argv[1:]
    exec(compile(source, str(program), "exec"), {"__name__": "__main__"})
