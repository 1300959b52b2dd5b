"""Passes as objects: `prim_func_pass`, `module_pass`, `Sequential`, and those of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.errors import CompileError
from ..loopir.module import IRModule
from ..loopir.stmt import PrimFunc
from ..lowering.options import LowerOptions
from ..target.target import Target
from .transform import PassContext, UserPass


class PassInfo:
    """What a pass is called, from which opt_level on it runs, and which it needs before it."""

    __slots__ = ("name", "opt_level", "required", "traceable")

    def __init__(
        self,
        opt_level: int,
        name: str,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.opt_level = opt_level
        self.name = name
        self.required = list(required or ())
        self.traceable = traceable

    def __repr__(self) -> str:
        return f"PassInfo({self.name!r}, opt_level={self.opt_level})"


class Pass:
    """Something that takes a module to a module; instruments of the present context see it run.

    A pass that is made of an object of the user's class has the object's attributes too."""

    instance: Any = None

    def __init__(self, info: PassInfo) -> None:
        self.info = info
        self.__name__ = info.name

    def __getattr__(self, name: str) -> Any:
        if self.instance is None or name.startswith("__"):
            raise AttributeError(f"the pass {self.__class__.__name__} has no attribute {name!r}")
        return getattr(self.instance, name)

    def __call__(self, target: Any) -> Any:
        """Run on an IRModule (or on one PrimFunc), whatever the opt_level."""
        context = PassContext.current()
        if not context.may_run(target, self.info):
            return target
        result = self.run(target, context)
        context.has_run(result, self.info)
        return result

    def run(self, target: Any, context: PassContext) -> Any:
        """What the pass makes of a module or function. Raises CompileError where the pass gives no
        IRModule."""
        raise NotImplementedError


class PrimFuncPass(Pass):
    """A pass made of a function (func, module, context) -> func; see `prim_func_pass`."""

    def __init__(self, function: UserPass, opt_level: int, name: str) -> None:
        super().__init__(PassInfo(opt_level, name))
        self.function = function
        self.opt_level = opt_level
        self.name = name

    def run(self, target: Any, context: PassContext) -> Any:
        if not isinstance(target, IRModule):
            return self.function(target, None, context)
        functions: dict[str, PrimFunc] = {}
        for key, func in target.functions.items():
            changed = self.function(func, target, context)
            if changed is not None:
                functions[key] = changed
        return target.with_functions(functions)


class ModulePass(Pass):
    """A pass made of a function (module, context) -> module; see `module_pass`."""

    def __init__(self, function: UserPass, info: PassInfo) -> None:
        super().__init__(info)
        self.function = function

    def run(self, target: Any, context: PassContext) -> Any:
        single = isinstance(target, PrimFunc)
        module = self.function(IRModule.from_expr(target) if single else target, context)
        if not isinstance(module, IRModule):
            raise CompileError(
                f"the pass {self.info.name} must return an IRModule, got {type(module).__name__}"
            )
        return next(iter(module.functions.values())) if single else module


class Sequential(Pass):
    """Passes one after another, each where the context's opt_level is at least its own."""

    def __init__(
        self,
        passes: Sequence[Any] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__(PassInfo(opt_level, name, required, traceable))
        self.passes = list(passes or ())

    def run(self, target: Any, context: PassContext) -> Any:
        for one in self.passes:
            info = getattr(one, "info", None)
            if info is not None and not context.enables(info):
                continue
            target = one(target)
        return target


def prim_func_pass(
    pass_func: UserPass | None = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function (PrimFunc, IRModule, PassContext) -> PrimFunc; also a decorator.

    On a class it makes passes of the class's objects, by their method `transform_function`.
    """
    del required, traceable

    def make(function: Any) -> Any:
        called = name or str(getattr(function, "__name__", "pass"))
        if isinstance(function, type):
            return _of_class(
                function,
                lambda made: PrimFuncPass(made.transform_function, opt_level, called),
            )
        return PrimFuncPass(function, opt_level, called)

    return make if pass_func is None else make(pass_func)


def module_pass(
    pass_func: UserPass | None = None,
    opt_level: int = 0,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Make a pass of a function (IRModule, PassContext) -> IRModule; also a decorator.

    On a class it makes passes of the class's objects, by their method `transform_module`.
    """

    def make(function: Any) -> Any:
        called = name or str(getattr(function, "__name__", "pass"))
        info = PassInfo(opt_level, called, required, traceable)
        if isinstance(function, type):
            return _of_class(function, lambda made: ModulePass(made.transform_module, info))
        return ModulePass(function, info)

    return make if pass_func is None else make(pass_func)


def _of_class(kind: type, make: Callable[[Any], Pass]) -> Callable[..., Pass]:
    def construct(*args: Any, **kwargs: Any) -> Pass:
        instance = kind(*args, **kwargs)
        made = make(instance)
        made.instance = instance
        return made

    construct.__name__ = kind.__name__
    construct.__doc__ = kind.__doc__
    return construct


def lowering_pass(
    name: str, function: Callable[[PrimFunc, LowerOptions], PrimFunc]
) -> Callable[[], PrimFuncPass]:
    """A maker of pass objects for a pass of the pipeline, with the options of the present
    context."""

    def run(func: PrimFunc, module: Any, context: PassContext) -> PrimFunc:
        return function(func, LowerOptions.current(Target.current(allow_none=True)))

    return simple_pass(name, run, function.__doc__)


def simple_pass(name: str, run: UserPass, doc: str | None = None) -> Callable[[], PrimFuncPass]:
    """A maker of pass objects of a function (func, module, context) -> func."""

    def make() -> PrimFuncPass:
        return PrimFuncPass(run, 0, f"tir.{name}")

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc or run.__doc__
    return make


def PrintIR(header: str = "") -> PrimFuncPass:
    """A pass that prints the program as it is."""

    def show(func: PrimFunc, module: Any, context: Any) -> PrimFunc:
        print(f"{header}\n{func}" if header else func)
        return func

    return PrimFuncPass(show, 0, "PrintIR")
