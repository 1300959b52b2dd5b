"""Helpers of tests under the names that TVM's users know: `tvm.testing.assert_allclose`, ...

pytest is imported by the functions that need it only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .rt.device import Device, device, enabled
from .target.target import Target


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere."""
    actual, desired = _numpy(actual), _numpy(desired)
    np.testing.assert_allclose(actual.shape, desired.shape)
    np.testing.assert_allclose(actual, desired, rtol=rtol, atol=atol, verbose=verbose)


def _numpy(value: Any) -> Any:
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def check_numerical_grads(
    function: Callable[..., Any],
    input_values: Any,
    grad_values: Any,
    function_value: Any = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raise AssertionError where gradients of a scalar function differ from central differences.

    `input_values` and `grad_values`: arrays in a list, or in a dict by argument name. The function
    is called with copies of the inputs of which one element is moved by `delta`.
    """
    named = isinstance(input_values, dict)
    keys = list(input_values) if named else list(range(len(input_values)))
    for key in keys:
        expected = np.asarray(grad_values[key], np.float64)
        found = np.zeros(np.shape(input_values[key]), np.float64)
        for place in np.ndindex(found.shape):
            ends = []
            for step in (delta, -delta):
                moved = {k: np.array(_numpy(input_values[k])) for k in keys}
                moved[key][place] += step
                got = (
                    function(**{str(k): v for k, v in moved.items()})
                    if named
                    else function(*moved.values())
                )
                ends.append(float(np.sum(_numpy(got), dtype=np.float64)))
            found[place] = (ends[0] - ends[1]) / (2 * delta)
        bound = atol * found.size**0.5 + rtol * float(np.linalg.norm(found))
        worst = float(np.linalg.norm(found - expected))
        if not worst <= bound:
            raise AssertionError(
                f"Analytical and numerical grads wrt {key!r} differ too much: {worst} > {bound}\n"
                f"analytical grad = {expected}\nnumerical grad = {found}"
            )


def check_bool_expr_is_true(bool_expr: Any, vranges: Any, cond: Any = None) -> None:
    """Raise AssertionError unless a condition holds for all values of variables in their ranges.

    `vranges`: dict from variables to ranges with constant ends; `cond`: what may be assumed.
    """
    from itertools import product

    from .arith import Analyzer
    from .loopir.subst import substitute

    analyzer = Analyzer()
    ranges = [range(int(r.min), int(r.min) + int(r.extent)) for r in vranges.values()]
    for values in product(*ranges):
        point = dict(zip(vranges, values))

        def holds(e: Any, at: Any = point) -> bool:
            consts = {v: v.dtype and _index(v, x) for v, x in at.items()}
            return bool(analyzer.can_prove(substitute(e, consts)))

        if (cond is None or holds(cond)) and not holds(bool_expr):
            raise AssertionError(f"The expression {bool_expr} is not true on {point}")


def _index(var: Any, value: int) -> Any:
    from .loopir.expr import const

    return const(value, var.dtype)


def device_enabled(target: Any) -> bool:
    """Whether code for a target can be built and run here."""
    name = Target(target).kind.name if not isinstance(target, str) else target
    return enabled(str(name))


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets that work here, each with its first device."""
    names = ("llvm", "cuda", "opencl")
    return [(name, device(name)) for name in names if enabled(name)]


def main() -> None:
    """Run the tests of the calling script by pytest and exit with its status."""
    pytest = import_module("pytest")
    path = sys._getframe(1).f_globals["__file__"]
    sys.exit(pytest.main([path, *sys.argv[1:]]))


# -- marks


def _mark(names: Sequence[str]) -> Callable[..., Any]:
    """A decorator that skips a test unless one of the targets works; used bare or called."""

    def decorate(*args: Any) -> Any:
        pytest = import_module("pytest")
        missing = not any(enabled(n) for n in names)
        mark = pytest.mark.skipif(missing, reason=f"needs {' or '.join(names)}")
        if not args:
            return [mark]
        return mark(args[0])

    decorate.__doc__ = f"Skips a test unless {' or '.join(names)} works; used bare or called."
    return decorate


requires_llvm = _mark(["llvm"])
requires_cuda = _mark(["cuda"])
requires_opencl = _mark(["opencl"])
requires_rocm = _mark(["rocm"])
requires_metal = _mark(["metal"])
requires_vulkan = _mark(["vulkan"])
requires_gpu = _mark(["cuda", "opencl", "rocm", "metal", "vulkan"])


def uses_gpu(*args: Any) -> Any:
    """Marks a test that runs on whatever there is; it always runs."""
    return args[0] if args else []


def requires_x86(*args: Any) -> Any:
    """Skips a test on other processors than x86-64."""
    import platform

    return _condition(platform.machine() == "x86_64", "needs an x86-64 processor", args)


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Skips a test where a Python package is missing."""
    from importlib.util import find_spec

    missing = [name for name in packages if find_spec(name) is None]
    return lambda function: _condition(not missing, f"needs {', '.join(missing)}", (function,))


def _condition(holds: bool, reason: str, args: Sequence[Any]) -> Any:
    mark = import_module("pytest").mark.skipif(not holds, reason=reason)
    return mark(args[0]) if args else [mark]


# -- parameters


def parameter(*values: Any, ids: Any = None, by_dict: Any = None) -> Any:
    """A fixture that takes each of the values in turn; assign it to the argument's name."""
    pytest = import_module("pytest")
    if by_dict:
        ids, values = list(by_dict), tuple(by_dict.values())

    def take(request: Any) -> Any:
        return request.param

    return pytest.fixture(params=values, ids=ids)(take)


def fixture(func: Any = None, *, cache_return_value: bool = False, **options: Any) -> Any:
    """pytest's fixture; a cached one is made once a session."""
    pytest = import_module("pytest")
    if cache_return_value:
        options["scope"] = "session"
    if func is None:
        return lambda f: pytest.fixture(**options)(f)
    return pytest.fixture(**options)(func)


def parametrize_targets(*args: Any) -> Any:
    """Runs a test with (target, dev) for each target named that works here (or for all)."""
    pytest = import_module("pytest")

    def decorate(function: Any) -> Any:
        names = [n for n, _ in enabled_targets()] if not chosen else list(chosen)
        cases = [
            pytest.param(
                name,
                device(name),
                marks=() if enabled(name) else pytest.mark.skip(reason=f"{name} is not here"),
                id=name,
            )
            for name in names
        ]
        return pytest.mark.parametrize(("target", "dev"), cases)(function)

    if len(args) == 1 and callable(args[0]):
        chosen: tuple[Any, ...] = ()
        return decorate(args[0])
    chosen = args
    return decorate


def exclude_targets(*_: str) -> Callable[[Any], Any]:
    """Names targets that a test is not for; only those that work here are tried anyway."""
    return lambda function: function


known_failing_targets = exclude_targets
