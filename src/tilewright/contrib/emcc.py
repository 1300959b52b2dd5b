"""`tvm.contrib.emcc`: WebAssembly needs a runtime that is not part of this project."""

from .libraries import refusal

_INSTEAD = (
    "build for -mtriple=wasm32-unknown-unknown, save the object, and link it with your own runtime"
)

create_tvmjs_wasm = refusal("create_tvmjs_wasm", "Emscripten", _INSTEAD)
