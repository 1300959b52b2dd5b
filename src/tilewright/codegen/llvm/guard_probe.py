"""Read and compile users' code in a process of its own, since LLVM ends the process on some.

`python guard_probe.py LLVMLITE_PARENT < request`. The request is JSON: {"text": IR text} or
{"bitcode": path}, with "machine": [triple, cpu, features, abi]. The answer on stdout is JSON:
{"error": why it is no IR}, or {"text": the module for this machine, "unknown": whether it calls an
intrinsic that LLVM does not know, "defined", "declared": names and types of functions}. Any exit
status but 0 means that LLVM cannot make machine code of it.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any


def main() -> int:
    """Read the request, compile it, answer."""
    sys.path.insert(0, sys.argv[1])
    print(json.dumps(answer(json.load(sys.stdin))))
    return 0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    import llvmlite.binding as llvm

    triple, cpu, features, abi = request["machine"]
    if llvm.get_process_triple().partition("-")[0] == triple.partition("-")[0]:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        llvm.initialize_native_asmparser()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    try:
        if "text" in request:
            module = llvm.parse_assembly(request["text"])
        else:
            with open(request["bitcode"], "rb") as file:
                module = llvm.parse_bitcode(file.read())
        module.verify()
    except (OSError, RuntimeError, ValueError) as error:
        return {"error": str(error)}
    module.triple, module.data_layout = triple, ""
    text = str(module)
    unknown = "; Unknown intrinsic" in text
    if not unknown:
        target = llvm.Target.from_triple(triple)
        options = {"reloc": "pic", "codemodel": "default", "abiname": abi}
        target.create_target_machine(cpu, features, **options).emit_object(module)
    found: dict[str, dict[str, str]] = {"defined": {}, "declared": {}}
    for function in module.functions:
        which = "declared" if function.is_declaration else "defined"
        found[which][function.name] = f"{_convention(function)}{function.global_value_type}"
    return {"text": text, "unknown": unknown, **found}


def _convention(function: Any) -> str:
    """The calling convention, where it is not C's."""
    head = next((x for x in str(function).splitlines() if x.startswith("define")), "")
    found = re.search(r"\b(cc ?\d+|\w+cc)\b", head.partition("@")[0])
    return f"{found.group()} " if found else ""


if __name__ == "__main__":
    sys.exit(main())
