"""What all IRs share, under the names that TVM's users know: `from tilewright import ir`.

Names only, resolved when first used (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES: dict[str, str] = {
    **dict.fromkeys(("Node", "PrimExpr", "Op"), "loopir.expr"),
    "Range": "loopir.iter",
    **dict.fromkeys(("IRModule", "GlobalVar", "BaseFunc"), "loopir.stmt"),
    **dict.fromkeys(("PointerType", "PrimType", "Type"), "loopir.types"),
    **dict.fromkeys(("Array", "Map"), "ir.container"),
    "Object": "loopir.node",
    "register_op_attr": "loopir.effects",
    "register_intrin_lowering": "loopir.intrin_rules",
    **dict.fromkeys(("structural_equal", "assert_structural_equal"), "loopir.equal"),
    "structural_hash": "loopir.hash",
    **dict.fromkeys(("save_json", "load_json"), "loopir.serial"),
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name in ("container", "instrument", "module", "transform"):
        return import_module(f"{__name__}.{name}")
    home = _NAMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"tilewright.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
