"""Run a program in which ``tvm`` and ``tvm.x.y`` are tilewright's modules: as_tvm.py PROGRAM.

Examples of this repository import tilewright by name; here they are read as TVM's users write them.
What `python -m tilewright.as_tvm` does is all that happens besides.
"""

import sys
from pathlib import Path

import tilewright.as_tvm

if __name__ == "__main__":
    tilewright.as_tvm.install()
    program = Path(sys.argv[1])
    source = program.read_text().replace("import tilewright as tvm", "import tvm")
    source = source.replace("from tilewright import", "from tvm import")
    sys.argv = sys.argv[1:]
    exec(compile(source, str(program), "exec"), {"__name__": "__main__"})
