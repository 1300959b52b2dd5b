"""PassContext: options of compilation for the body of a `with`, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

from ..base import config as options
from ..base.errors import TilewrightError
from ..loopir.stmt import PrimFunc
from ..lowering.options import LowerOptions
from ..target.target import Target

UserPass = Callable[..., Any]

# TVM's options of one pass, as dictionaries: key -> {field: option of base.config}
_GROUPS: dict[str, dict[str, str]] = {
    "tir.UnrollLoop": {
        "auto_max_step": "unroll_max_step",
        "auto_max_depth": "unroll_max_depth",
        "auto_max_extent": "unroll_max_extent",
        "explicit_unroll": "unroll_explicit",
    },
    "tir.LoopPartition": {
        "partition_const_loop": "partition_const_loop",
        "no_unroll_loop_with_extent_one": "no_unroll_loop_with_extent_one",
    },
    "tir.InjectDoubleBuffer": {"split_loop": "double_buffer_split_loop"},
}
# options of TVM that change nothing here
_WITHOUT_EFFECT = frozenset(
    ("tir.is_entry_func", "tir.use_async_copy", "tir.debug_keep_trivial_loop", "tir.Simplify")
)

_contexts: ContextVar[tuple[PassContext, ...]] = ContextVar("tilewright_pass_contexts", default=())


class PassContext:
    """Options for what is lowered and built in the body of `with PassContext(...):`.

    opt_level: 0 to 3, also LLVM's. disabled_pass: names of passes to leave out. config: by TVM's
    keys ("tir.UnrollLoop": {"auto_max_step": 16}, "tir.disable_vectorize": True, ...) or the
    options' own names (base.config); "tir.add_lower_pass": a list of (phase 0 to 3, function
    PrimFunc -> PrimFunc) run at the end of that phase. Unknown keys raise TilewrightError.
    required_pass and instruments are accepted for TVM's sake.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        del required_pass, instruments
        self.opt_level = opt_level
        self.disabled_pass = tuple(disabled_pass or ())
        self.config = dict(config or {})
        self.user_passes: tuple[tuple[int, UserPass], ...] = ()
        self._options = self._read()
        self._stack: list[ExitStack] = []

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.opt_level not in (0, 1, 2, 3):
            raise TilewrightError(f"opt_level is 0 to 3, got {self.opt_level!r}")
        found["opt_level"] = self.opt_level
        if self.disabled_pass:
            found["disabled_pass"] = self.disabled_pass
        for key, value in self.config.items():
            if key == "tir.add_lower_pass":
                self.user_passes = tuple(_lower_pass(p) for p in value)
            elif key in _GROUPS:
                found.update(_group(key, value))
            elif key not in _WITHOUT_EFFECT:
                found[options.find(key).name] = value
        return found

    @staticmethod
    def current() -> PassContext:
        """The innermost context that is entered, or one with every default."""
        stack = _contexts.get()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        stack = ExitStack()
        stack.enter_context(options.scoped(**self._options))
        token = _contexts.set((*_contexts.get(), self))
        stack.callback(_contexts.reset, token)
        self._stack.append(stack)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.pop().close()


def user_passes() -> tuple[tuple[int, Callable[[PrimFunc], PrimFunc]], ...]:
    """Passes of the user's in the present context: (phase, function)."""
    return tuple(p for context in _contexts.get() for p in context.user_passes)


def _lower_pass(entry: Any) -> tuple[int, UserPass]:
    try:
        phase, function = entry
    except (TypeError, ValueError):
        phase, function = None, None
    if phase not in (0, 1, 2, 3) or not callable(function):
        raise TilewrightError(
            "tir.add_lower_pass takes pairs of a phase, 0 to 3, and a function PrimFunc -> "
            f"PrimFunc, got {entry!r}"
        )
    return int(phase), function


def _group(key: str, value: Any) -> dict[str, Any]:
    fields = _GROUPS[key]
    if not isinstance(value, Mapping):
        raise TilewrightError(f"{key} takes a dict of {', '.join(fields)}, got {value!r}")
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise TilewrightError(
            f"{key} has no option {', '.join(map(repr, unknown))}; it has {', '.join(fields)}"
        )
    return {fields[name]: v for name, v in value.items()}


class PrimFuncPass:
    """A pass made of a function (func, module, context) -> func; see `prim_func_pass`."""

    def __init__(self, function: UserPass, opt_level: int, name: str) -> None:
        self.function = function
        self.opt_level = opt_level
        self.name = name

    def __call__(self, target: Any) -> Any:
        """Run on a PrimFunc, or on each function of an IRModule."""
        from_module = getattr(target, "functions", None)
        if from_module is None:
            return self.function(target, None, PassContext.current())
        changed = {
            key: self.function(func, target, PassContext.current())
            for key, func in from_module.items()
        }
        return type(target)(changed)


def prim_func_pass(
    pass_func: UserPass | None = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function (PrimFunc, IRModule, PassContext) -> PrimFunc; also a decorator."""
    del required, traceable

    def make(function: UserPass) -> PrimFuncPass:
        return PrimFuncPass(function, opt_level, name or str(getattr(function, "__name__", "pass")))

    return make if pass_func is None else make(pass_func)


def lowering_pass(
    name: str, function: Callable[[PrimFunc, LowerOptions], PrimFunc]
) -> Callable[[], PrimFuncPass]:
    """A maker of pass objects for a pass of the pipeline, with the options of the present
    context."""

    def run(func: PrimFunc, module: Any, context: PassContext) -> PrimFunc:
        return function(func, LowerOptions.current(Target.current(allow_none=True)))

    def make(*_: Any, **__: Any) -> PrimFuncPass:
        return PrimFuncPass(run, 0, name)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = function.__doc__
    return make
