"""PassContext: options of compilation for the body of a `with`, by TVM's names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any

from ..base import config as options
from ..base.errors import OptionError, TilewrightError
from ..loopir.stmt import PrimFunc

UserPass = Callable[..., Any]

# TVM's options of one pass, as dictionaries: key -> {field: option of base.config}
_GROUPS: dict[str, dict[str, str]] = {
    "tir.UnrollLoop": {
        "auto_max_step": "unroll_max_step",
        "auto_max_depth": "unroll_max_depth",
        "auto_max_extent": "unroll_max_extent",
        "explicit_unroll": "unroll_explicit",
        "unroll_local_access": "unroll_local_access",
    },
    "tir.LoopPartition": {
        "partition_const_loop": "partition_const_loop",
        "no_unroll_loop_with_extent_one": "no_unroll_loop_with_extent_one",
    },
    "tir.InjectDoubleBuffer": {"split_loop": "double_buffer_split_loop"},
}
# options of passes that users run by name, which read them from the context
_OF_PASSES: dict[str, tuple[str, ...]] = {
    "tir.HoistExpression": ("hoisted_conditionals", "hoisted_let_bindings"),
    "tir.HoistIfThenElse": ("support_block_scope_hosting",),
    "tir.Simplify": (
        "transitively_prove_inequalities",
        "propagate_knowns_to_prove_conditional",
        "propagate_knowns_to_simplify_expressions",
        "convert_boolean_to_and_of_ors",
        "apply_constraints_to_boolean_branches",
    ),
    "tir.RemoveNoOp": ("use_dataflow_analysis", "max_simplification_steps"),
}
# options of TVM that change nothing here
_WITHOUT_EFFECT = frozenset(
    (
        "relay.backend.use_auto_scheduler",
        "tir.ReduceBranchingThroughOvercompute",
        "tir.debug_keep_trivial_loop",
        "tir.detect_global_barrier",
        "tir.enable_buffer_level_predication",
        "tir.enable_debug",
        "tir.enable_equiv_terms_in_cse_tir",
        "tir.instrument_lwp",
        "tir.is_entry_func",
        "tir.merge_static_smem",
        "tir.noalias",
        "tir.ptx_ldg32",
        "tir.use_async_copy",
        "tir.vtcm_capacity",
    )
)

_contexts: ContextVar[tuple[PassContext, ...]] = ContextVar("tilewright_pass_contexts", default=())


class PassContext:
    """Options for what is lowered and built in the body of `with PassContext(...):`.

    opt_level: 0 to 4, also LLVM's (which knows no 4). disabled_pass: names of passes to leave
    out. config: by TVM's keys ("tir.UnrollLoop": {"auto_max_step": 16}, "tir.disable_vectorize":
    True, ...) or the options' own names (base.config); "tir.add_lower_pass": a list of (phase 0 to
    3, function PrimFunc -> PrimFunc) run at the end of that phase. Unknown keys raise
    TilewrightError.
    instruments: objects whose methods enter_pass_ctx, exit_pass_ctx (no arguments),
    should_run, run_before_pass and run_after_pass (module, info), where they have them, are called.
    required_pass is accepted for TVM's sake.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        del required_pass
        self.instruments = list(instruments or ())
        self.opt_level = opt_level
        self.disabled_pass = tuple(disabled_pass or ())
        if config is not None and not isinstance(config, Mapping):
            raise TilewrightError(f"config is a dictionary of options, got {config!r}")
        self.config = {k: _Group(k, v) if k in _GROUPS else v for k, v in (config or {}).items()}
        self.user_passes: tuple[tuple[int, UserPass], ...] = ()
        self._options = self._read()
        self._stack: list[ExitStack] = []

    def _read(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.opt_level not in (0, 1, 2, 3, 4):
            raise TilewrightError(f"opt_level is 0 to 4, got {self.opt_level!r}")
        found["opt_level"] = min(self.opt_level, 3)
        if self.disabled_pass:
            found["disabled_pass"] = self.disabled_pass
        for key, value in self.config.items():
            if key == "tir.add_lower_pass":
                self.user_passes = tuple(_lower_pass(p) for p in value)
            elif isinstance(value, _Group):
                found.update({value.options[name]: given for name, given in value.items()})
            elif key in _OF_PASSES:
                _require_fields(key, value, _OF_PASSES[key])
            elif key not in _WITHOUT_EFFECT:
                found[options.find(key).name] = value
        return found

    @staticmethod
    def current() -> PassContext:
        """The innermost context that is entered, or one with every default."""
        stack = _contexts.get()
        return stack[-1] if stack else PassContext()

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Let others watch: those before are told that they leave, the new ones that they enter."""
        if self._stack:
            self._tell("exit_pass_ctx")
        self.instruments = list(instruments or ())
        if self._stack:
            self._tell("enter_pass_ctx")

    @staticmethod
    def list_configs() -> dict[str, Any]:
        """The keys that `config` takes, each with the options that it holds or sets."""
        keys: dict[str, Any] = {
            key: {"type": "dict", "options": list(v)}
            for key, v in {**_GROUPS, **_OF_PASSES}.items()
        }
        keys["tir.add_lower_pass"] = {"type": "list"}
        keys.update({key: {"type": "without effect"} for key in _WITHOUT_EFFECT})
        return keys

    def __enter__(self) -> PassContext:
        stack = ExitStack()
        stack.enter_context(options.scoped(**self._options))
        token = _contexts.set((*_contexts.get(), self))
        stack.callback(_contexts.reset, token)
        self._stack.append(stack)
        self._tell("enter_pass_ctx")
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._tell("exit_pass_ctx")
        finally:
            self._stack.pop().close()

    # -- passes as objects (passes.py) ask

    def enables(self, info: Any) -> bool:
        """Whether a pass runs in a sequence: not disabled, and of no higher opt_level."""
        return info.opt_level <= self.opt_level and info.name not in self.disabled_pass

    def may_run(self, module: Any, info: Any) -> bool:
        """Ask the instruments, and tell them that the pass begins where all agree."""
        for one in self.instruments:
            should = getattr(one, "should_run", None)
            if should is not None and not should(module, info):
                return False
        self._tell("run_before_pass", module, info)
        return True

    def has_run(self, module: Any, info: Any) -> None:
        """Tell the instruments that a pass has run."""
        self._tell("run_after_pass", module, info)

    def _tell(self, event: str, *args: Any) -> None:
        for one in self.instruments:
            heard = getattr(one, event, None)
            if heard is not None:
                heard(*args)


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


class _Group(dict[str, Any]):
    """What is said of a group of options: items are those given, attributes all of them."""

    def __init__(self, key: str, values: Any) -> None:
        self.options = _GROUPS[key]
        _require_fields(key, values, self.options)
        super().__init__(values)

    def __getattr__(self, name: str) -> Any:
        if name not in self.options:
            raise AttributeError(f"there is no option {name!r} among {', '.join(self.options)}")
        return self[name] if name in self else options.find(self.options[name]).default


def _require_fields(key: str, value: Any, fields: Collection[str]) -> None:
    if not isinstance(value, Mapping):
        raise OptionError(f"{key} takes a dict of {', '.join(fields)}, got {value!r}")
    unknown = [name for name in value if name not in fields]
    if unknown:
        raise OptionError(
            f"{key} has no option {', '.join(map(repr, unknown))}; it has {', '.join(fields)}"
        )
