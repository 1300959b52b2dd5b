"""What the stub's compiler makes: images that name their source, whose loop IR is kept here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tilewright.codegen.cuda_shared import dynamic_shared
from tilewright.loopir.hopper_calls import CLUSTER
from tilewright.loopir.said import said
from tilewright.lowering.verify_gpu_code import gpu_usage
from tilewright.rt.drivers.base import DeviceCode, KernelInfo
from tilewright.rt.drivers.cuda_parts import parts

_known: dict[str, DeviceCode] = {}
_CUBIN, _PTX = b"\x7fELF stub ", b".version 9.0 // stub "


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def remember(*args: Any, **how: Any) -> DeviceCode:
    """As DeviceCode; the kernels are found again by their source."""
    code = DeviceCode(*args, **how)
    if code.payload is not None:
        _known[digest(code.source)] = code
        for part in parts(code.source):
            mine = tuple(k for k in code.kernels if part.kernel in ("", k.name))
            _known[digest(part.source)] = replace(code, kernels=mine)
    return code


@contextmanager
def kept() -> Iterator[None]:
    """What is compiled in the body of the `with` is forgotten behind it: the loop IR of a kernel,
    and what simt made of it, are tens of thousands of objects, which each collection of cycles
    looks through."""
    before = dict(_known)
    try:
        yield
    finally:
        _known.clear()
        _known.update(before)


def compile_cuda(
    source: str, arch: str, kind: str = "ptx", compiler: Any = None, options: Any = ()
) -> tuple[bytes, str]:
    """In the place of nvrtc.compile_cuda."""
    head = _CUBIN if kind == "cubin" else _PTX
    return head + f"{arch} {digest(source)} ".encode(), ""


def read(image: bytes) -> tuple[str, str, Mapping[str, Any]] | None:
    """(kind, architecture, kernels by name) of an image; None: it is none of ours."""
    for kind, head in (("cubin", _CUBIN), ("ptx", _PTX)):
        found = re.match(re.escape(head) + rb"(\w+) (\w+) ", image)
        if found:
            code = _known.get(found[2].decode())
            if code is None:
                return None
            kernels = {k.name: Code(k, code.payload[k.name]) for k in code.kernels}
            return kind, found[1].decode(), kernels
    return None


@dataclass(frozen=True)
class Code:
    """One kernel of an image: what its text says of itself."""

    info: KernelInfo
    func: Any

    @property
    def params(self) -> tuple[str, ...]:
        access = self.func.attrs["tir.kernel_params_access"]
        return tuple("map" if a == "map" else p.dtype for p, a in zip(self.func.params, access))

    @property
    def dynamic(self) -> int:
        """Bytes of dynamic shared memory that it uses."""
        return dynamic_shared(self.func).nbytes

    @property
    def cluster(self) -> int:
        """Blocks of a cluster along x."""
        return max(said(self.func.body, CLUSTER), 1)

    @property
    def static(self) -> int:
        """Bytes of the shared arrays that it declares with their sizes."""
        chosen = dynamic_shared(self.func).places
        usage = gpu_usage(self.func)
        shared = usage[0].shared if usage else {}
        return sum(n for b, n in shared.items() if b.data not in chosen)
