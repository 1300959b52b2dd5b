"""Run a program in which `tvm` and its submodules are tilewright's: tvm_alias.py PROGRAM."""

import importlib
import runpy
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec


class Finder(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "tvm" else None

    def exec_module(self, module):
        real = module.__name__.replace("tvm", "tilewright", 1)
        sys.modules[module.__name__] = importlib.import_module(real)


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder())
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
