"""Compiles CUDA source: with NVRTC (of pip's nvidia-cuda-nvrtc), else with nvcc.

Needs no GPU. Kernels that include headers of the CUDA toolkit find them in $CUDA_HOME, beside nvcc,
or in pip's packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ...base.errors import CompileError, TargetError
from .ptxas import REPORT, for_other_blocks, ranked

_SHOWN_ERRORS = 5
_UNKNOWN_ARCH = re.compile(r"--gpu-architecture|[Uu]nsupported gpu architecture")
_PLACE = re.compile(r"^(?:.*?)\.cu\((\d+)\): (?:catastrophic )?error", re.M)
_INSTALL = (
    "no CUDA compiler here: install NVRTC (pip install nvidia-cuda-nvrtc cuda-bindings, or, for a "
    "driver of CUDA 12, pip install nvidia-cuda-nvrtc-cu12 'cuda-bindings<13') or put nvcc on PATH"
)
_MODULES = ("cuda.bindings.nvrtc", "cuda.nvrtc")  # the second: cuda-python before 12.6
_PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-nvrtc-cu13")


@dataclass(frozen=True)
class KernelUsage:
    """What one kernel takes of a multiprocessor.

    `registers`: 32-bit registers a thread; `shared`: static shared memory in bytes; `stack`: bytes
    of local memory a thread (spilled registers, and arrays that are indexed by variables);
    `spill_stores`, `spill_loads`: bytes, where the compiler's report is at hand, else 0.
    """

    registers: int
    shared: int
    stack: int
    spill_stores: int = 0
    spill_loads: int = 0


def find_compiler() -> str:
    """ "nvrtc", "nvcc", or "" where there is none."""
    if _nvrtc() is not None:
        return "nvrtc"
    return "nvcc" if _nvcc() else ""


def why_missing() -> str:
    """Why CUDA source cannot be compiled here; empty where it can."""
    return "" if find_compiler() else _INSTALL


def compile_cuda(
    source: str,
    arch: str,
    kind: str = "ptx",
    compiler: str | None = None,
    options: Sequence[str] = (),
) -> tuple[bytes, str]:
    """PTX text or a cubin of CUDA source for an architecture such as "sm_80", and the compiler's
    log (warnings; for cubins ptxas's report of registers and spills). Kernels of a cubin that
    spill, or lack few registers of another block, are compiled again for that many blocks.

    `compiler`: "nvrtc" or "nvcc" (default: what is there); `options` are the compiler's own.
    CompileError shows the lines of the source that the compiler complains about; TargetError says
    that no compiler is there.
    """
    if kind not in ("ptx", "cubin"):
        raise ValueError(f"kind is 'ptx' or 'cubin', not {kind!r}")
    if not re.fullmatch(r"sm_\d+[af]?", arch):
        raise TargetError(f"a CUDA architecture is named such as sm_80, got {arch!r}")
    which = compiler or find_compiler()
    made_with = {"nvrtc": _with_nvrtc, "nvcc": _with_nvcc}.get(which)
    if made_with is None or not (_nvrtc() if which == "nvrtc" else _nvcc()):
        raise TargetError(_INSTALL)
    made = made_with(source, arch, kind, options)
    if kind == "cubin":
        told = for_other_blocks(source, made[1])
        if told != source:
            try:
                other = made_with(told, arch, kind, options)
            except CompileError:  # an instruction takes more registers than so many blocks leave
                return made
            return min(made, other, key=lambda x: ranked(source, x[1]))
    return made


# -- NVRTC


@cache
def _nvrtc() -> Any:
    for name in _MODULES:
        try:
            nvrtc: Any = importlib.import_module(name)
            nvrtc.nvrtcVersion()
        except (ImportError, RuntimeError, OSError):
            continue
        return nvrtc
    return None


@cache
def compiler_version() -> tuple[int, int]:
    """CUDA's version (13, 0) of the compiler here; (0, 0) where there is none, or it does not
    say."""
    nvrtc = _nvrtc()
    if nvrtc is not None:
        _, major, minor = nvrtc.nvrtcVersion()
        return int(major), int(minor)
    found = re.search(r"release (\d+)\.(\d+)", _nvcc_says())
    return (int(found[1]), int(found[2])) if found else (0, 0)


@cache
def compiler_name() -> str:
    """The compiler with all that is known of its version, for keys of what it made; "" where there
    is none."""
    kind = find_compiler()
    if kind == "nvcc":
        return " ".join(["nvcc", *_nvcc_says().split()[-2:]])
    if not kind:
        return ""
    builds = []
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            builds.append(f"{package}={metadata.version(package)}")
    return " ".join(["nvrtc {}.{}".format(*compiler_version()), *builds])


def why_unfit(driver: int) -> str:
    """Why a driver (its cuDriverGetVersion) cannot load what is compiled here, with what to
    install; empty where it can: cubins of an older CUDA, or of any minor version of its own."""
    major, minor = compiler_version()
    if not driver or major <= driver // 1000:
        return ""
    theirs = f"{driver // 1000}.{driver % 1000 // 10}"
    kind, wanted = find_compiler(), driver // 1000
    install = (
        f"pip install {packages(wanted)}, or a newer driver"
        if kind == "nvrtc"
        else f"use nvcc of CUDA {wanted}, or a newer driver"
    )
    name = "NVRTC" if kind == "nvrtc" else kind
    return f"{name} {major}.{minor} is newer than the driver, which is of CUDA {theirs}: {install}"


def packages(major: int, minor: int | None = None) -> str:
    """What pip installs of NVRTC, of one minor version where that counts, and of bindings for a
    driver of a CUDA."""
    name = "nvidia-cuda-nvrtc" + (f"-cu{major}" if major < 13 else "")
    exact = f"=={major}.{minor}.*" if minor is not None else "" if major < 13 else f"<{major + 1}"
    text = f"'{name}{exact}'" if exact else name
    extra = f" (as 'tilewright[cuda{major}]' does)" if major in (12, 13) and minor is None else ""
    return f"{text} 'cuda-bindings<{major + 1}'{extra}"


@cache
def _nvcc_says() -> str:
    if not _nvcc():
        return ""
    done = subprocess.run([_nvcc(), "--version"], capture_output=True, text=True, check=False)
    return done.stdout


def _text(nvrtc: Any, size: Any, read: Any, program: Any) -> bytes:
    _, count = size(program)
    buffer = bytearray(count)
    read(program, buffer)
    return bytes(buffer)


def _with_nvrtc(source: str, arch: str, kind: str, more: Sequence[str]) -> tuple[bytes, str]:
    nvrtc = _nvrtc()
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, None, None)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC failed to start: {status.name}")
    try:
        options = [f"--gpu-architecture={arch}", "--std=c++17", *more]
        if kind == "cubin":
            options.append("--ptxas-options=-v")
        if "#include" in source:
            options += [f"--include-path={folder}" for folder in include_folders()]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
        raw = _text(nvrtc, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = raw.rstrip(b"\0").decode(errors="replace").strip()
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(_explain("NVRTC", status.name, arch, source, log))
        if kind == "ptx":
            ptx = _text(nvrtc, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
            return ptx.rstrip(b"\0"), log
        return _text(nvrtc, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


# -- nvcc


@cache
def _nvcc() -> str:
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    places = [f"{home}/bin"] if home else []
    for folder in (*places, None, "/usr/local/cuda/bin"):
        found = shutil.which("nvcc", path=folder)
        if found:
            return found
    return ""


def _with_nvcc(source: str, arch: str, kind: str, more: Sequence[str]) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path, out = Path(folder, "kernel.cu"), Path(folder, f"kernel.{kind}")
        path.write_text(source, encoding="utf-8")
        command = [_nvcc(), f"--{kind}", f"-arch={arch}", "-std=c++17", *more]
        command += ["-o", str(out), str(path)]
        if kind == "cubin":
            command.append("-Xptxas=-v")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = (done.stdout + done.stderr).strip()
        if done.returncode != 0:
            status = f"exit status {done.returncode}"
            raise CompileError(_explain("nvcc", status, arch, source, log))
        return out.read_bytes(), log


def include_folders() -> list[str]:
    """Folders with the CUDA toolkit's headers, those of pip's packages last."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    if _nvcc():
        homes.append(str(Path(_nvcc()).resolve().parent.parent))
    folders = [Path(home, "include") for home in homes if home]
    folders += sorted(Path("/usr/local").glob("cuda-*/include"), reverse=True)
    folders += _wheel_folders("include")
    found = [f for f in dict.fromkeys(folders) if (f / "cuda_fp16.h").exists()][:1]
    more = [f / "cccl" for f in found if (f / "cccl").is_dir()]
    return [str(f) for f in (*found, *more)]


def _wheel_folders(name: str) -> list[Path]:
    """Folders of that name in the packages of NVIDIA that pip has installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec else []
    return [f for root in roots for f in sorted(Path(root).glob(f"*/{name}"))]


def _explain(tool: str, status: str, arch: str, source: str, log: str) -> str:
    """The compiler's messages, each with the line of the source that it is about."""
    lines = source.splitlines()
    shown: list[str] = []
    for number in dict.fromkeys(int(m[1]) for m in _PLACE.finditer(log)):
        if 0 < number <= len(lines):
            shown.append(f"  {number:5} | {lines[number - 1]}")
        if len(shown) == _SHOWN_ERRORS:
            break
    where = "\nlines of the generated source:\n" + "\n".join(shown) if shown else ""
    if _UNKNOWN_ARCH.search(log):
        known = ", ".join(known_archs())
        where = f"\n{tool} here knows {known}; name one of these, as in -arch=sm_90"
    return f"{tool} cannot compile the CUDA source for {arch} ({status}):\n{log}{where}"


@cache
def known_archs() -> tuple[str, ...]:
    """The architectures that the compiler here makes code for; empty where there is none."""
    nvrtc = _nvrtc()
    if nvrtc is not None:
        _, archs = nvrtc.nvrtcGetSupportedArchs()
        return tuple(f"sm_{number}" for number in archs)
    if not _nvcc():
        return ()
    done = subprocess.run([_nvcc(), "--list-gpu-code"], capture_output=True, text=True, check=False)
    return tuple(done.stdout.split())


# -- resources

_LOSS = re.compile(r"\((C\d+)\) Potential Performance Loss: (.*?) in (?:the )?function '(\w+)'")
_REGCOUNT, _FRAME_SIZE = 0x2F, 0x11
_RESERVED_SHARED = 1024  # bytes of a block that the system keeps for itself


def resource_usage(cubin: bytes, log: str = "") -> dict[str, KernelUsage]:
    """What each kernel of a cubin uses, read from its ELF sections; with the log of
    `compile_cuda(..., "cubin")` the spills too."""
    sections = _elf_sections(cubin)
    names = [s[0] for s in sections]
    registers, frames = _nv_info(sections)
    spills = {m[1]: (int(m[3]), int(m[4])) for m in REPORT.finditer(log)}
    usage = {}
    for at, name in enumerate(names):
        if not name.startswith(".text."):
            continue
        kernel = name[len(".text.") :]
        shared = next((s[3] for s in sections if s[0] == f".nv.shared.{kernel}"), 0)
        if shared and ".nv.shared.reserved.0" in names:  # counted in from sm_90 on
            shared -= _RESERVED_SHARED
        count = registers.get(kernel) or sections[at][2] >> 24
        usage[kernel] = KernelUsage(
            count, shared, frames.get(kernel, 0), *spills.get(kernel, (0, 0))
        )
    return usage


def performance_losses(log: str) -> list[tuple[str, str]]:
    """What ptxas says in the log of `compile_cuda(..., "cubin")` that makes code slow, as products
    of warp groups that wait for each other (C7510 and those after): kernels, and its words."""
    return [(m[3], f"{m[1]}: {m[2]}") for m in _LOSS.finditer(log)]


def commented(sass: str, log: str) -> str:
    """SASS below what ptxas said of its speed."""
    return "".join(f"// {name}: {text}\n" for name, text in performance_losses(log)) + sass


def _elf_sections(image: bytes) -> list[tuple[str, bytes, int, int]]:
    """(name, content, sh_info, size) of each section of a 64-bit ELF file."""
    if image[:5] != b"\x7fELF\x02":
        raise ValueError("a cubin is a 64-bit ELF file; this is something else")
    (offset,) = struct.unpack_from("<Q", image, 40)
    size, count, strings = struct.unpack_from("<HHH", image, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", image, offset + i * size) for i in range(count)]
    names = image[raw[strings][4] : raw[strings][4] + raw[strings][5]]
    out = []
    for r in raw:
        name = names[r[0] : names.index(b"\0", r[0])].decode()
        content = b"" if r[1] == 8 else image[r[4] : r[4] + r[5]]  # SHT_NOBITS has no content
        out.append((name, content, r[7], r[5]))
    return out


def _nv_info(sections: list[tuple[str, bytes, int, int]]) -> tuple[dict[str, int], dict[str, int]]:
    """Register counts and frame sizes by kernel, from the attributes of section .nv.info."""
    content = {s[0]: s[1] for s in sections}
    symbols, strings = content.get(".symtab", b""), content.get(".strtab", b"")
    info = content.get(".nv.info", b"")

    def symbol(index: int) -> str:
        (at,) = struct.unpack_from("<I", symbols, index * 24)
        return strings[at : strings.index(b"\0", at)].decode()

    tables: dict[int, dict[str, int]] = {_REGCOUNT: {}, _FRAME_SIZE: {}}
    at = 0
    while at + 4 <= len(info):
        form, code, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # only EIFMT_SVAL has a payload behind the header
            continue
        if code in tables and size == 8:
            index, value = struct.unpack_from("<II", info, at)
            tables[code][symbol(index)] = value
        at += size
    return tables[_REGCOUNT], tables[_FRAME_SIZE]


def find_disassembler() -> tuple[str, str] | None:
    """The tool that is here ("nvdisasm" before "cuobjdump") and the path of its program."""
    home = Path(_nvcc()).resolve().parent if _nvcc() else Path("/usr/local/cuda/bin")
    places = os.pathsep.join(map(str, (home, *_wheel_folders("bin"))))
    for tool in ("nvdisasm", "cuobjdump"):
        found = shutil.which(tool) or shutil.which(tool, path=places)
        if found:
            return tool, found
    return None


def disassemble(cubin: bytes, lines: bool = False) -> str:
    """SASS of a cubin by nvdisasm or cuobjdump; TargetError where neither is installed.

    `lines`: with comments `//## File "...", line N` before what comes from a line of the source,
    where the cubin was compiled with --generate-line-info; only nvdisasm writes them.
    """
    found = find_disassembler()
    if not found:
        raise TargetError(
            "no disassembler here: install nvdisasm (pip install nvidia-cuda-nvdisasm) or the CUDA "
            "toolkit"
        )
    tool, path = found
    options = ["-sass"] if tool == "cuobjdump" else ["-c", "-g"] if lines else ["-c"]
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [path, *options, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{tool} failed: {done.stderr.strip()}")
    return done.stdout
