"""Write the stubs of the faces: `python -m tools.make_stubs` (`--check` only says what is stale).

A face resolves its names when they are used, which no type checker follows; the stub beside it
imports each name from where it is defined, so that checkers and editors see the real signatures.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from tilewright.base.face import FACES, Face

MODULES = (
    "tilewright tilewright.te tilewright.te.schedule tilewright.tir tilewright.ir tilewright.nd "
    "tilewright.runtime tilewright.topi tilewright.topi.image tilewright.topi.nn "
    "tilewright.topi.testing tilewright.topi.vision tilewright.auto_scheduler tilewright.autotvm "
    "tilewright.driver tilewright.graph tilewright.testing tilewright.testing.utils "
    "tilewright.report"
)


def stub(face: Face) -> str:
    """The text of the stub of a face."""
    renamed: list[str] = []
    lines = ["# Made by `python -m tools.make_stubs`.", ""]
    for home in sorted({home for home, _ in face.homes.values()} | set(face.tables)):
        names = [(own, name) for name, (place, own) in face.homes.items() if place == home]
        lines += [f"from tilewright.{home} import *"] * (home in face.tables)
        for own, name in sorted(names):
            hidden = name if own == name else f"_{own}"  # only `X as X` is exported
            lines.append(f"from tilewright.{home} import {own} as {hidden}")
            renamed += [f"{name} = _{own}"] * (own != name)
    lines += [f"from {face.module} import {name} as {name}" for name in sorted(face.modules)]
    lines += ["", *renamed] if renamed else []
    if face.module == "tilewright":
        lines += ["", "__version__: str"]
    return "\n".join(lines) + "\n"


def stubs() -> dict[Path, str]:
    """All stubs, by where they belong."""
    found = {}
    for module in MODULES.split():
        source = import_module(module).__file__
        assert source is not None
        found[Path(source).with_suffix(".pyi")] = stub(FACES[module])
    return found


def main() -> int:
    stale = [p for p, text in stubs().items() if not p.exists() or p.read_text() != text]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"stale: {p}" for p in stale))
        return 1 if stale else 0
    for path in stale:
        path.write_text(stubs()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
