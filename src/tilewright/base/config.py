"""Every environment variable and option of tilewright: name, type, default and meaning.

A value is looked up in the scopes opened by `scoped(...)`, innermost first, then in what
`set_option` set for the process, then in the environment, then it is the default. Scopes follow
the context (contextvars), so a thread or task does not see another's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .errors import OptionError, TilewrightError

MAX_THREADS = 1024
"""Most threads of a parallel loop: the pool has room for as many."""

_TRUE = frozenset(("1", "true", "on", "yes"))
_FALSE = frozenset(("", "0", "false", "off", "no"))


@dataclass(frozen=True)
class Option:
    """One option. `env` names the environment variable that gives it, if any; `tvm` the key that a
    pass context of TVM's API has for it; `code` says whether generated code depends on it. An int
    is 0 or more, at most `most`."""

    name: str
    type: type
    default: Any
    doc: str
    env: str = ""
    tvm: str = ""
    code: bool = False
    most: int | None = None


_OPTIONS: dict[str, Option] = {}
_BY_TVM: dict[str, Option] = {}
_process: dict[str, Any] = {}
_scopes: ContextVar[Mapping[str, Any]] = ContextVar(
    "tilewright_options", default=MappingProxyType({})
)


def register(option: Option) -> Option:
    """Add an option to the registry; a name, variable or TVM key may stand there once."""
    for other in _OPTIONS.values():
        if option.name == other.name or (option.env and option.env == other.env):
            raise TilewrightError(f"option {option.name!r} ({option.env}) is registered already")
    _OPTIONS[option.name] = option
    if option.tvm:
        _BY_TVM[option.tvm] = option
    return option


def options() -> list[Option]:
    """All options, by name."""
    return [_OPTIONS[name] for name in sorted(_OPTIONS)]


def find(name: str) -> Option:
    """The option of that name, or TVM key; TilewrightError names what is near."""
    found = _OPTIONS.get(name) or _BY_TVM.get(name)
    if found is None:
        known = [*_OPTIONS, *_BY_TVM]
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"
        raise OptionError(f"unknown option {name!r}; {hint}")
    return found


def get(name: str) -> Any:
    """The value of an option in the present context."""
    scope = _scopes.get()
    if name in scope:
        return scope[name]
    if name in _process:
        return _process[name]
    option = find(name)
    if option.name != name:
        return get(option.name)
    if option.env and option.env in os.environ:
        return _convert(option, os.environ[option.env], f"environment variable {option.env}")
    return option.default


def set_option(name: str, value: Any) -> None:
    """Set an option for the whole process; None goes back to environment or default."""
    option = find(name)
    if value is None:
        _process.pop(option.name, None)
    else:
        _process[option.name] = _convert(option, value, f"option {option.name!r}")


@contextmanager
def scoped(**values: Any) -> Iterator[None]:
    """Options for the body of a `with`; names that are no identifiers (TVM's) go through `**{}`."""
    given = {}
    for name, value in values.items():
        option = find(name)
        given[option.name] = _convert(option, value, f"option {option.name!r}")
    token = _scopes.set(MappingProxyType({**_scopes.get(), **given}))
    try:
        yield
    finally:
        _scopes.reset(token)


def code_key() -> str:
    """Text of every option on which generated code depends and that is not at its default."""
    found = _changed(o for o in options() if o.code)
    return ";".join(f"{name}={value!r}" for name, value in found.items())


def changed_as_data(wanted: Iterable[Option] | None = None) -> dict[str, Any]:
    """Options that are not at their default, of those that are wanted, by name; for JSON."""
    found = _changed(options() if wanted is None else wanted)
    plain = {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}
    return {name: str(v) if isinstance(v, Path) else v for name, v in plain.items()}


def _changed(wanted: Iterable[Option]) -> dict[str, Any]:
    values = ((option, get(option.name)) for option in wanted)
    return {option.name: value for option, value in values if value != option.default}


def describe() -> str:
    """A table of all options as text: name, variable, type, default, meaning."""
    lines = []
    for option in options():
        names = ", ".join(filter(None, (option.env, option.tvm)))
        lines.append(f"{option.name} ({option.type.__name__}, default {option.default!r})")
        lines.append(f"    {option.doc}{f' [{names}]' if names else ''}")
    return "\n".join(lines)


def _convert(option: Option, value: Any, where: str) -> Any:
    try:
        if option.type is bool:
            return _to_bool(value)
        if option.type is int:
            if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
                raise ValueError
            number = int(value)
            if number < 0 or (option.most is not None and number > option.most):
                raise ValueError
            return number
        if option.type is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(p.strip() if isinstance(p, str) else p for p in parts if p != "")
        if option.type is Path:
            return Path(value).expanduser() if value else option.default
        if option.type is str and not isinstance(value, str):
            raise ValueError
        return option.type(value)
    except (ValueError, TypeError, OverflowError):
        kind = "a yes or no" if option.type is bool else option.type.__name__
        if option.most is not None:
            kind = f"{kind} up to {option.most}"
        raise TilewrightError(f"{where} takes {kind}, got {value!r}: {option.doc}") from None


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise ValueError
    if value in (0, 1):
        return bool(value)
    raise ValueError


def _cache_home() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "tilewright"


def cache_dir() -> Path:
    """Folder of the compile cache: the option, else under XDG_CACHE_HOME or ~/.cache."""
    chosen: Path | None = get("cache_dir")
    return _cache_home() if chosen is None else chosen


_T = "TILEWRIGHT_"
for _option in (
    Option("cache", bool, True, "keep compiled code on disk", _T + "CACHE"),
    Option(
        "cache_dir",
        Path,
        None,
        "folder of the compile cache (default: tilewright in the XDG cache folder)",
        _T + "CACHE_DIR",
    ),
    Option(
        "cache_limit_mb",
        int,
        2048,
        "size in MiB above which the compile cache drops its least recently used entries",
        _T + "CACHE_LIMIT_MB",
    ),
    Option(
        "num_threads",
        int,
        0,
        "threads of a parallel loop; 0 means one for each core that the process may use",
        _T + "NUM_THREADS",
        most=MAX_THREADS,
    ),
    Option(
        "place_threads",
        bool,
        True,
        "let threads of parallel loops choose their cores on Linux (sched_setaffinity, which a "
        "sandbox may forbid); read when the first loop runs, and when a library is exported",
        _T + "PLACE_THREADS",
    ),
    Option(
        "compile_processes",
        int,
        0,
        "processes that compile the kernels of a large network, with that which asks, and threads "
        "that give CUDA source to NVRTC, by kernels; 0 means as many as num_threads",
        _T + "COMPILE_PROCESSES",
        most=MAX_THREADS,
    ),
    Option(
        "winograd",
        bool,
        True,
        "let networks on CPUs use Winograd's minimal filtering where it is faster; it rounds a "
        "little more",
        _T + "WINOGRAD",
    ),
    Option(
        "model_growth",
        int,
        16,
        "how many times the size of its file and declared tensors the constants may take that "
        "importing a model computes (256 MiB in any case)",
        _T + "MODEL_GROWTH",
    ),
    Option(
        "network_memory",
        int,
        0,
        "MiB that an array or the workspace of a network may take; 0 means the machine's memory",
        _T + "NETWORK_MEMORY",
    ),
    Option("dump_dir", Path, None, "folder for the text of each stage of a build", _T + "DUMP_DIR"),
    Option(
        "dump_accesses",
        bool,
        False,
        "dump_dir gets figures of how GPU kernels access memory too, by a block of each in simt",
        _T + "DUMP_ACCESSES",
    ),
    Option("verify", bool, False, "verify the program after every pass", _T + "VERIFY"),
    Option(
        "keep_schedule_record",
        bool,
        False,
        "a schedule keeps its versions, one after each primitive, as schedule_record",
        tvm="te.keep_schedule_record",
    ),
):
    register(_option)

for _name, _type, _default, _doc, _tvm in (
    ("opt_level", int, 2, "effort of the compiler, 0 to 3", ""),
    ("disabled_pass", tuple, (), "passes of the pipeline to leave out", ""),
    ("unroll_max_step", int, 0, "most steps of a loop nest unrolled without a pragma", ""),
    ("unroll_max_depth", int, 8, "most nested loops unrolled without a pragma", ""),
    ("unroll_max_extent", int, 0, "most steps of one loop unrolled regardless", ""),
    ("unroll_explicit", bool, True, "unroll in the program, else leave a hint to LLVM", ""),
    ("unroll_local_access", bool, False, "unroll loops that index memory of scope local", ""),
    ("partition_const_loop", bool, False, "partition loops of constant extent too", ""),
    ("no_unroll_loop_with_extent_one", bool, False, "keep partitioned loops of one step", ""),
    ("double_buffer_split_loop", int, 1, "steps to split a double-buffered loop by", ""),
    ("disable_vectorize", bool, False, "vectorized loops run serially", "tir.disable_vectorize"),
    (
        "disable_storage_rewrite",
        bool,
        False,
        "no two buffers share memory",
        "tir.disable_storage_rewrite",
    ),
    ("llvm_vectorize", bool, False, "LLVM may vectorise what the schedule left scalar", ""),
    ("disable_cse", bool, False, "common subexpressions stay as they are", "tir.disable_cse_tir"),
    ("disable_assert", bool, False, "leave out the program's asserts", "tir.disable_assert"),
    (
        "bound_checks",
        bool,
        False,
        "check each access not proved to be in bounds when it runs",
        "tir.instrument_bound_checkers",
    ),
):
    _most = 3 if _name == "opt_level" else None
    register(Option(_name, _type, _default, _doc, tvm=_tvm, code=True, most=_most))
