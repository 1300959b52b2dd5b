"""The passes between the device pipeline and the source text of a kernel."""

from __future__ import annotations

from ..codegen.source import prepare_kernel as prepare_kernel
