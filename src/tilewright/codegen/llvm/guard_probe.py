"""Compile IR text in a process of its own: `python guard_probe.py LLVMLITE_PARENT < request`.

The request is JSON: [text, triple, cpu, features, abi]. Exit status 0 means that LLVM made machine
code.
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    """Read the request, compile it."""
    sys.path.insert(0, sys.argv[1])
    import llvmlite.binding as llvm

    text, triple, cpu, features, abi = json.load(sys.stdin)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(
        cpu, features, reloc="pic", codemodel="default", abiname=abi
    )
    module = llvm.parse_assembly(text)
    module.verify()
    machine.emit_object(module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
