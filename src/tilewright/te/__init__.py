"""Tensor expressions under the names that TVM's users know: `from tilewright import te`.

Names only, resolved when first used (PEP 562); what they do stands in tensor/, loopir/ and
schedule/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_OP = "loopir.op"
_NAMES: dict[str, str] = {
    **dict.fromkeys(("Tensor", "TensorSlice"), "tensor.tensor"),
    **dict.fromkeys(
        ("Operation", "PlaceholderOp", "BaseComputeOp", "ComputeOp", "TensorComputeOp", "ScanOp")
        + ("ExternOp",),
        "tensor.op",
    ),
    **dict.fromkeys(("placeholder", "compute"), "tensor.compute"),
    **dict.fromkeys(("var", "size_var", "thread_axis", "reduce_axis", "tag_scope"), "tensor.axes"),
    **dict.fromkeys(("comm_reducer", "sum", "prod", "min", "max", "any", "all"), "tensor.reduce"),
    "scan": "tensor.scan",
    **dict.fromkeys(("extern", "extern_primfunc"), "tensor.extern"),
    **dict.fromkeys(("decl_tensor_intrin", "TensorIntrin", "TensorIntrinCall"), "tensor.intrin"),
    "gradient": "tensor.gradient",
    "trace": "tensor.trace",
    "SpecializedCondition": "tensor.specialize",
    **dict.fromkeys(("create_schedule", "Schedule", "Stage", "AXIS_SEPARATOR"), "schedule.api"),
    "const": "loopir.expr",
    **dict.fromkeys(
        ("min_value", "max_value", "if_then_else", "popcount", "clz", "likely", "ceildiv", "div")
        + ("indexdiv", "indexmod", "truncdiv", "truncmod", "floordiv", "floormod")
        + ("add", "subtract", "multiply"),
        _OP,
    ),
}
_SUBMODULES = ("schedule", "operation", "tensor", "tag")


def _builders() -> tuple[str, ...]:
    """The functions of floats; their table says which there are."""
    return import_module("tilewright.loopir.elementary").BUILDERS  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__all__":
        return [*_NAMES, *_builders(), *_SUBMODULES]
    home = _NAMES.get(name) or ("loopir.elementary" if name in _builders() else None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"tilewright.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
