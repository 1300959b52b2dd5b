"""`Module`: compiled functions together with their object code, sources and target."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from ..base.errors import InternalError, MissingFunctionError, TilewrightError
from ..base.pictured import Shown
from ..target import Target
from . import export, native, objects
from .device import Device, device
from .device_module import DeviceFunction, KernelCode, device_metadata
from .drivers.base import DeviceCode
from .files import as_path, write_atomically
from .function import Function, make_function
from .signature import FunctionInfo
from .timing import BenchmarkResult, evaluate

Source = str | Callable[[], str]

_ENTRY = "__tvm_main__"
JOINED = "joined"
_FORMAT_NAMES = {"s": "asm", "llvm": "ll", "cu": "cuda", "cl": "opencl"}


class _Code:
    """Object code that is linked into the process when a function is first called."""

    __slots__ = ("_library", "_lock", "names", "obj", "symbols", "target")

    def __init__(
        self, obj: bytes, target: Target, names: Sequence[str], symbols: Mapping[str, int]
    ) -> None:
        self.obj = obj
        self.target = target
        self.names = names
        self.symbols = symbols
        self._library: native.NativeLibrary | None = None
        self._lock = Lock()

    def load(self, name: str) -> tuple[int, Any]:
        with self._lock:  # two threads that link would have code each, and one of them go
            if self._library is None:
                reason = self.target.missing_on_host()
                if reason:
                    text = str(self.target)
                    raise TilewrightError(f"cannot run code for target {text!r}: {reason}")
                self._library = native.load_object(self.obj, self.symbols, self.names)
            return self._library.address(name), self._library


class Module(Shown):
    """Compiled functions. Calling the module calls its entry function; `m["name"]` gives one.

    `imported_modules` are the modules of devices whose kernels these functions launch.
    """

    __slots__ = (
        "__weakref__",
        "_code",
        "_entry",
        "_functions",
        "_kernels",
        "_sources",
        "imported_modules",
        "target",
        "type_key",
    )

    def __init__(
        self,
        functions: Mapping[str, Function],
        target: Target,
        sources: Mapping[str, Source],
        entry: str | None = None,
        imports: Iterable[Module] = (),
        type_key: str = "llvm",
        code: _Code | None = None,
        kernels: KernelCode | None = None,
    ) -> None:
        self._functions = dict(functions)
        self._sources = dict(sources)
        self._code = code
        self._kernels = kernels
        self.target = target
        self.type_key = type_key
        self.imported_modules: list[Module] = list(imports)
        self._entry = entry if entry is not None else next(iter(self._functions), "")

    @staticmethod
    def from_object(
        obj: bytes,
        infos: Iterable[FunctionInfo],
        target: Target,
        sources: Mapping[str, Source] | None = None,
        entry: str | None = None,
        symbols: Mapping[str, int] | None = None,
        imports: Iterable[Module] = (),
    ) -> Module:
        """A module of position-independent object code.

        `sources`: text, or a function that makes it, by format ("ll", "asm", "tir"), the default
        first. `entry`: what calling the module calls (default: the first function). `symbols`:
        addresses in this process for names that the object leaves open; a module that has any
        cannot be exported.
        """
        listed = list(infos)
        code = _Code(obj, target, [i.name for i in listed], dict(symbols or {}))
        functions = {i.name: make_function(i, partial(code.load, i.name)) for i in listed}
        return Module(functions, target, sources or {}, entry, imports, target.kind.name, code)

    @staticmethod
    def of_kernels(
        code: DeviceCode, target: Target, sources: Mapping[str, Source] | None = None
    ) -> Module:
        """The module of a device's kernels, which functions of another module launch. Its default
        source is the text of the kernels."""
        texts = {code.kind: code.source, **(sources or {})}
        return Module({}, target, texts, "", (), code.kind, None, KernelCode(code))

    @staticmethod
    def of_device(
        functions: Iterable[tuple[FunctionInfo, str]],
        target: Target,
        kernels: Module,
        sources: Mapping[str, Source] | None = None,
        entry: str | None = None,
    ) -> Module:
        """A module of functions that launch the kernels of another one.

        `functions`: signatures, each with the text of its host code (see `device_module`).
        """
        code = kernels._kernels
        if code is None:
            raise InternalError("of_device needs a module of kernels")
        made = {i.name: DeviceFunction(i, text, code, code.code.kind) for i, text in functions}
        texts = {"host": "\n\n".join(f.text for f in made.values()), **(sources or {})}
        return Module(made, target, texts, entry, (kernels,), "device")

    @staticmethod
    def joined(modules: Sequence[Module]) -> Module:
        """One module of the functions of several, for targets of their own, which it imports.
        Raises TilewrightError where two modules have a function of one name."""
        functions: dict[str, Function] = {}
        for module in modules:
            for name, function in module._functions.items():
                if name in functions:
                    raise TilewrightError(f"two modules have a function {name!r}")
                functions[name] = function
        return Module(functions, modules[0].target, {}, None, modules, JOINED)

    # -- functions

    @property
    def device_code(self) -> DeviceCode | None:
        """The kernels of a module of kernels."""
        return None if self._kernels is None else self._kernels.code

    def compile_kernels(self) -> None:
        """Compile CUDA kernels now, where a compiler is here and the target names an architecture,
        instead of when they are first called. CompileError shows what the compiler says."""
        for module in (self, *self.imported_modules):
            if module._kernels is not None:
                module._kernels.compile_ahead()

    @property
    def entry_name(self) -> str:
        """Name of the function that calling the module calls."""
        return self._entry

    @property
    def function_names(self) -> list[str]:
        """The names of the functions that can be called."""
        return list(self._functions)

    @property
    def object_code(self) -> bytes | None:
        """The object file, where the module has one."""
        return None if self._code is None else self._code.obj

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """The function of that name, with `query_imports` in imported modules too. Raises
        TilewrightError where the name is not text, and MissingFunctionError where the module has no
        function of that name."""
        if not isinstance(name, str):
            raise TilewrightError(f"a function is found by its name, got {name!r}")
        found = self._functions.get(self._entry if name == _ENTRY else name)
        if found is not None:
            return found
        if query_imports:
            for module in self.imported_modules:
                if name in module.function_names:
                    return module[name]
        has = ", ".join(self._functions) or "none"
        raise MissingFunctionError(f"Module has no function {name!r}; it has: {has}")

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def implements_function(self, func_name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name; `query_imports`: in imported modules too."""
        mine = self._functions.keys()
        return func_name in mine or (
            query_imports and any(func_name in m for m in self.imported_modules)
        )

    @property
    def is_runnable(self) -> bool:
        """Whether there is something to call."""
        return bool(self._functions)

    @property
    def is_dso_exportable(self) -> bool:
        """Whether the module has object code, which linkers take."""
        return self._code is not None

    def clear_imports(self) -> None:
        """Forget the imported modules."""
        self.imported_modules.clear()

    @property
    def entry_func(self) -> Function:
        """The function that calling the module calls."""
        return self.get_function(self._entry)

    def __call__(self, *args: Any) -> Any:
        """Call the entry function; see `Function`."""
        return self._functions[self._entry](*args)

    def prepare(self, *args: Any) -> Callable[[], None]:
        """The entry function on arguments that are checked once; see `Function.prepare`."""
        return self.entry_func.prepare(*args)

    def run_simt(self, *args: Any) -> dict[str, Any]:
        """The entry function in the lock-step executor; see `DeviceFunction.run_simt`. Raises
        TilewrightError where the function has no kernels."""
        run = getattr(self.entry_func, "run_simt", None)
        if run is None:
            raise TilewrightError(
                f"{self.entry_name} has no kernels: simt runs what is built for cuda or opencl"
            )
        reports: dict[str, Any] = run(*args)
        return reports

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: Callable[[], Any] | None = None,
    ) -> Callable[..., BenchmarkResult]:
        """A function of the arguments that times `func_name` on them; see `timing.evaluate`. Raises
        TilewrightError where the name is not text, and MissingFunctionError where the module has no
        function of that name. Times are seconds; `min_repeat_ms` and `cooldown_interval_ms`
        milliseconds; `repeats_to_cooldown`: runs between two rests."""
        function = self.get_function(func_name, query_imports=True)
        if dev is not None:
            device(dev).require()

        def timed(*args: Any) -> BenchmarkResult:
            return evaluate(
                function,
                args,
                number,
                repeat,
                min_repeat_ms,
                cooldown_interval_ms,
                repeats_to_cooldown,
                cache_flush_bytes,
                f_preproc or None,
                limit_zero_time_iterations,
            )

        return timed

    # -- sources

    @property
    def source_formats(self) -> list[str]:
        """What `get_source` has: "tir", "ll", "asm", "cuda", ..."""
        return list(self._sources)

    def get_source(self, fmt: str = "") -> str:
        """The code as text: "ll" (LLVM IR), "asm", "tir"; the default is the module's first. Raises
        TilewrightError where the module has no source of that format."""
        if not isinstance(fmt, str):
            raise TilewrightError(f"the format of a source is a name, got {fmt!r}")
        name = _FORMAT_NAMES.get(fmt, fmt) or next(iter(self._sources), "")
        found = self._sources.get(name)
        if found is None:
            has = ", ".join(self._sources) or "none"
            raise TilewrightError(f"module has no source of format {name!r}; it has: {has}")
        if not isinstance(found, str):
            found = self._sources[name] = found()
        return found

    def import_module(self, module: Module) -> None:
        """Make another module one of the imported."""
        self.imported_modules.append(module)

    # -- files

    def save(self, path: str | os.PathLike[str], fmt: str = "") -> None:
        """Write one form of the code: .o the object, .ll, .s and .tir sources, .bc LLVM's bitcode,
        else as `export_library` does. Raises TilewrightError where `path` is neither text nor a
        Path, where the module has no object code, or refers to memory of this process, where the
        module has no source of that format, where several modules are to become one shared
        library."""
        path = as_path(path)
        kind = fmt or Path(path).suffix[1:]
        if kind == "o":
            objects.write_object(path, self._object(), self._metadata())
        elif kind == "bc":
            write_atomically(path, native.bitcode(self.get_source("ll")))
        elif _FORMAT_NAMES.get(kind, kind) in self._sources:
            write_atomically(path, self.get_source(kind).encode())
        elif fmt and f".{fmt}" != Path(path).suffix:
            self.get_source(fmt)  # which says what there is
        else:
            self.export_library(path)

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Callable[..., Any] | None = None,
        addons: Any = None,
        workspace_dir: str | None = None,
        *,
        cc: str | None = None,
        **options: Any,
    ) -> str:
        """Write the module to a file that `load_module` reads; nothing is left half-written.

        A path that ends in .so becomes a shared library and needs a linker (`cc`, or the
        system's), in .o an object file, in .tar a tar file of that; any other an archive, which
        needs none, as does a module of a device whatever its path. `fcompile(path, objects,
        **options)`, such as contrib.cc.create_shared, makes the file instead. Returns the path.
        Raises TilewrightError where several modules are to become one shared library, where
        `file_name` is neither text nor a Path, where the module has no object code, or refers to
        memory of this process, where there is no linker, or it fails.
        """
        del addons, workspace_dir
        path = as_path(file_name)
        if self.type_key == "device":
            export.write_archive(path, self._members(""))
        elif fcompile is not None:
            compiler_options = options if cc is None else {**options, "cc": cc}
            metadata_of = self._metadata()
            objects.compile_with(fcompile, path, self._object(), metadata_of, compiler_options)
        elif Path(path).suffix == ".o":
            objects.write_object(path, self._object(), self._metadata())
        elif Path(path).suffix == ".tar" and not self.imported_modules:
            objects.write_tar(path, self._object(), self._metadata())
        elif Path(path).suffix == ".so":
            if self.imported_modules:
                raise TilewrightError(
                    "several modules cannot become a shared library; export to a path that ends "
                    "in .two"
                )
            metadata = json.dumps({**self._metadata(), "sealed": True}).encode()
            export.link_shared(path, self._object(), metadata, self.target.triple, cc)
        else:
            export.write_archive(path, self._members(""))
        return os.fspath(path)

    def _object(self) -> bytes:
        if self._code is None:
            raise TilewrightError("the module has no object code, so it cannot be exported")
        if self._code.symbols:
            raise TilewrightError(
                "the module refers to memory of this process and cannot be exported: "
                + ", ".join(self._code.symbols)
            )
        return self._code.obj

    def _metadata(self) -> dict[str, Any]:
        on_cpu = self.target.kind.name in ("llvm", "c")
        target = self.target.export()
        if on_cpu:
            target.update(mcpu=self.target.cpu, mtriple=self.target.triple)
        return {
            "format": export.FORMAT,
            "version": export.VERSION,
            "target": target,
            "features": sorted(self.target.required_features) if on_cpu else [],
            "entry": self._entry,
            "functions": [f.info.to_json() for f in self._functions.values()],
            "type_key": self.type_key,
            "imports": len(self.imported_modules),
            "parallel": self._code is not None and native.needs_threads(self._code.obj),
            **device_metadata(self._kernels, self._functions if self.type_key == "device" else {}),
        }

    def _members(self, prefix: str) -> dict[str, bytes]:
        members = {f"{prefix}metadata.json": json.dumps(self._metadata()).encode()}
        if self._code is not None:
            members[f"{prefix}code.o"] = self._object()
        if self._kernels is not None and self._kernels.code.binary is not None:
            members[f"{prefix}code.bin"] = self._kernels.code.binary
        for name, text in self._sources.items():
            if isinstance(text, str):
                members[f"{prefix}source.{name}"] = text.encode()
        for index, module in enumerate(self.imported_modules):
            members.update(module._members(f"{prefix}imports/{index}/"))
        return members

    def __repr__(self) -> str:
        names = ", ".join(self._functions)
        return f"<tilewright module for {str(self.target)!r}: {names}>"


class _Called(type):
    """Functions of Python are called by compiled code as they are, without a wrapper, so that those
    that were registered or converted are packed functions too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (Function, FunctionType, BuiltinFunctionType, MethodType))


class PackedFunc(Function, metaclass=_Called):
    """What `isinstance(f, PackedFunc)` asks for: functions of modules, and those of Python."""

    __slots__ = ()
