"""`python -m tilewright.as_tvm`: run a script, or a module, whose `tvm` is tilewright."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

USAGE = """\
usage: python -m tilewright.as_tvm SCRIPT [ARGS...]
       python -m tilewright.as_tvm -m MODULE [ARGS...]
       python -m tilewright.as_tvm -c CODE [ARGS...]

Runs a program in which `import tvm` means tilewright; `tilewright migrate` says
beforehand which names it uses that differ or are absent."""


def run(arguments: Sequence[str]) -> int:
    """Run what the arguments say as Python itself would; an exit status where they say nothing."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    first, *rest = arguments
    if first in ("-m", "-c"):
        if not rest:
            print(f"{first} needs an argument\n{USAGE}", file=sys.stderr)
            return 2
        what, *rest = rest
        if (first, what) == ("-m", "pytest"):
            rest = ["-p", "tilewright.as_tvm.pytest_plugin", *rest]
        sys.argv[:] = [what if first == "-m" else "-c", *rest]
        if first == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(compile(what, "<string>", "exec"), vars(_main_module(None)))
        return 0
    script = Path(first)
    if script.is_dir():
        script /= "__main__.py"
    if not script.is_file():
        print(f"there is no file {script}", file=sys.stderr)
        return 2
    sys.argv[:] = [first, *rest]
    sys.path[0] = str(script.resolve().parent)
    code = compile(script.read_bytes(), str(script), "exec")
    exec(code, vars(_main_module(str(script))))
    return 0


def _main_module(file: str | None) -> ModuleType:
    """A new `__main__`, of the script: pickles and spawned processes look functions up there."""
    module = ModuleType("__main__")
    if file is not None:
        module.__file__ = file
    vars(module).update(__builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    return module


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
