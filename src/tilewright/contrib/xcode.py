"""`tvm.contrib.xcode`: Apple's tools, which are on macOS only."""

from .libraries import refusal

_INSTEAD = "on macOS link a saved object with contrib.cc; kernels of Metal are not made"

xcrun = refusal("xcrun", "Xcode", _INSTEAD)
create_dylib = refusal("create_dylib", "Xcode", _INSTEAD)
compile_metal = refusal("compile_metal", "Xcode", _INSTEAD)
compile_coreml = refusal("compile_coreml", "Xcode", _INSTEAD)
