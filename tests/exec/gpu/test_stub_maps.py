"""Tensor maps on a stub of the CUDA driver, which holds their arguments to what it documents, and
runs the kernels that take them in simt."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.stub_cuda import StubCuda, installed
from tests.unit.topi.test_warp_groups import HOPPER, product
from tilewright.base.errors import ArgumentError, TilewrightError
from tilewright.base.tensor_map import Pixels, TensorMap
from tilewright.rt.device_array import DeviceArray
from tilewright.rt.device_module import Launcher
from tilewright.rt.drivers.cuda_api import Api, CudaError
from tilewright.rt.drivers.cuda_maps import CudaTensorMap
from tilewright.target.target import Target

SIZE = (130, 72, 136)


def encoded(stub: StubCuda) -> int:
    return sum(call[0] == "cuTensorMapEncodeTiled" for call in stub.calls)


def test_kernels_get_the_maps_of_their_arguments() -> None:
    with installed("sm_90") as stub:
        built = tw.build(*product(SIZE, "float16", (False, True)), HOPPER)
        dev = tw.cuda(0)
        rng = np.random.default_rng(0)
        x, y, z = ((rng.integers(-8, 9, (n, 136)) / 8).astype(np.float16) for n in (130, 72, 130))
        a, b, other = (tw.nd.array(v, dev) for v in (x, y, z))
        c = tw.nd.empty((130, 72), "float32", dev)
        for _ in range(2):
            built(a, b, c)
            np.testing.assert_array_equal(c.numpy(), x.astype("float32") @ y.T.astype("float32"))
        assert encoded(stub) == 2  # one an operand, for both calls
        again = built["default_function"].prepare(other, b, c)
        again()
        np.testing.assert_array_equal(c.numpy(), z.astype("float32") @ y.T.astype("float32"))
        assert encoded(stub) == 3 and stub.violations == []


def test_modules_from_a_file_get_them_too(tmp_path: Path) -> None:
    with installed("sm_90") as stub:
        built = tw.build(*product(SIZE, "float16", (False, True)), HOPPER)
        loaded = tw.runtime.load_module(built.export_library(tmp_path / "m.two"))
        dev = tw.cuda(0)
        a, b = (tw.nd.array(np.ones((n, 136), np.float16), dev) for n in (130, 72))
        c = tw.nd.empty((130, 72), "float32", dev)
        loaded(a, b, c)
        assert (c.numpy() == 136).all() and encoded(stub) == 2


def test_what_no_map_describes_is_told() -> None:
    launcher = Launcher(tw.simt(0).runtime, {})
    with pytest.raises(
        TilewrightError, match=r"an array of \(8, 4\) elements has no tensor map: a"
    ):
        launcher.tensor_map(None, "float16", (8, 4), (24,), (8, 4), 0)


def test_arrays_that_no_map_is_of_are_refused() -> None:
    with installed("sm_90") as stub:
        built = tw.build(*product(SIZE, "float16", (False, True)), HOPPER)
        dev = tw.cuda(0)
        odd = tw.nd.empty((130 * 136 + 4,), "float16", dev)[4:].view((130, 136))
        b, c = tw.nd.empty((72, 136), "float16", dev), tw.nd.empty((130, 72), "float32", dev)
        with pytest.raises(ArgumentError, match=r"argument 0 \(A\): expected data aligned to 16"):
            built(odd, b, c)
        assert encoded(stub) == 0 and stub.violations == []


def test_the_target_of_a_device_has_warp_groups() -> None:
    for arch, name, able in (("sm_80", "sm_80", False), ("sm_90", "sm_90a", True)):
        with installed(arch):
            target = Target.from_device(tw.cuda(0))
            assert (target.arch, target.capabilities.warp_groups) == (name, able)


def test_older_devices_have_no_maps() -> None:
    with installed("sm_80"):
        runtime = tw.cuda(0).runtime
        with pytest.raises(TilewrightError, match="no tensor maps: they came with CUDA's sm_90"):
            runtime.tensor_map(512, TensorMap("float16", (64, 8), (128,), (64, 8), 128))


class Encode:
    """Arguments of a function that encodes maps that are right, but for those that are changed."""

    function = "cuTensorMapEncodeTiled"

    def __init__(self, stub: StubCuda) -> None:
        self.stub = stub
        stub.cuInit(0)
        stub.cuCtxSetCurrent(stub.cuDevicePrimaryCtxRetain(0)[1])
        self.memory = stub.cuMemAlloc(1 << 16)[1]
        self.map = CudaTensorMap()

    def shape(self) -> dict[str, Any]:
        """What stands between the address and how it is encoded."""
        return {"dims": (64, 256), "strides": (256,), "box": (64, 128), "steps": (1, 1)}

    def arguments(self, **changes: Any) -> dict[str, Any]:
        s, shape = self.stub, self.shape()
        given = {
            "to": self.map.address,
            "kind": s.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            "rank": len(shape["dims"]),
            "address": self.memory,
            **shape,
            "interleave": s.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            "swizzle": s.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            "promotion": s.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            "fill": s.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        }
        for name, change in changes.items():
            given[name] = change(self) if callable(change) else change
        return given

    def __call__(self, **changes: Any) -> str:
        """The name of the status."""
        (status,) = getattr(self.stub, self.function)(*self.arguments(**changes).values())
        return str(status.name)


class EncodeImages(Encode):
    """Of 2 images of 16 x 12 (W x H) and 64 channels, padded by 1."""

    function = "cuTensorMapEncodeIm2col"

    def shape(self) -> dict[str, Any]:
        return {
            "dims": (64, 16, 12, 2),
            "strides": (128, 2048, 24576),
            "lower": (-1, -1),
            "upper": (-1, -1),
            "channels": 64,
            "pixels": 128,
            "steps": (1, 2, 1, 1),
        }


def _swizzle(name: str) -> Any:
    return lambda e: getattr(e.stub.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{name}")


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a map between": ({"to": lambda e: e.map.address + 64}, "no multiple of 128"),
    "a type that is none": ({"kind": 99}, "99 is no CUtensorMapDataType"),
    "no dimensions": ({"rank": 0}, "a rank of 0"),
    "an address between": ({"address": lambda e: e.memory + 8}, "is no multiple of 16"),
    "an address of nobody": ({"address": 1 << 40}, "is in no allocation"),
    "an empty dimension": ({"dims": (64, 0)}, "dimensions of (64, 0)"),
    "an odd stride": ({"strides": (264,)}, "strides of (264,)"),
    "a far stride": ({"strides": (1 << 40,)}, "strides of"),
    "a stride within a row": ({"strides": (64,)}, "a stride of 64 in 128 bytes"),
    "an array beyond its memory": ({"dims": (64, 257)}, "65664 bytes at 0 of 65536"),
    "a high box": ({"box": (64, 257)}, "a box of (64, 257)"),
    "a narrow box": ({"box": (4, 8)}, "rows of a box of 8 bytes"),
    "a row beyond the swizzle": ({"swizzle": _swizzle("64B")}, "rows of 128 bytes with a swizzle"),
    "no steps": ({"steps": (0, 1)}, "element strides of (0, 1)"),
}


WRONG_IMAGES: dict[str, tuple[dict[str, Any], str]] = {
    name: WRONG[name]
    for name in (
        "a map between",
        "a type that is none",
        "an address between",
        "an address of nobody",
    )
} | {
    "two dimensions": ({"rank": 2}, "a rank of 2"),
    "six dimensions": ({"rank": 6}, "a rank of 6"),
    "an empty dimension": ({"dims": (64, 16, 0, 2)}, "dimensions of (64, 16, 0, 2)"),
    "an odd stride": ({"strides": (136, 2176, 26112)}, "strides of (136, 2176, 26112)"),
    "a stride within a line": ({"strides": (128, 1024, 24576)}, "a stride of 1024 in 2048 bytes"),
    "an array beyond its memory": ({"dims": (64, 16, 12, 3)}, "73728 bytes at 0 of 65536"),
    "a far corner": ({"lower": (0, -129)}, "a corner of (0, -129), rank 4"),
    "a corner far behind": ({"upper": (128, 0)}, "a corner of (128, 0), rank 4"),
    "a corner of one number": ({"upper": (0,)}, "a corner of (0,), rank 4"),
    "an empty box": ({"upper": (-17, 0)}, "a bounding box of [0, 13]"),
    "no channels": ({"channels": 0}, "0 channels a pixel"),
    "many channels": ({"channels": 264}, "264 channels a pixel"),
    "many pixels": ({"pixels": 1025}, "1025 pixels a column"),
    "channels of 8 bytes": ({"channels": 4}, "rows of a box of 8 bytes"),
    "a row beyond the swizzle": ({"channels": 72}, "rows of 144 bytes with a swizzle of 128"),
    "wide steps": ({"steps": (1, 9, 1, 1)}, "element strides of (1, 9, 1, 1)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str) -> None:
    _refuses(Encode, *WRONG[name])


@pytest.mark.parametrize("name", WRONG_IMAGES)
def test_wrong_arguments_of_images_are_refused(name: str) -> None:
    _refuses(EncodeImages, *WRONG_IMAGES[name])


def _refuses(kind: type[Encode], changes: dict[str, Any], text: str) -> None:
    with installed("sm_90") as stub:
        encode = kind(stub)
        assert encode() == "CUDA_SUCCESS"
        assert encode(**changes) == "CUDA_ERROR_INVALID_VALUE"
        (why,) = stub.violations
        assert text in why


@pytest.mark.parametrize("kind", [Encode, EncodeImages])
def test_the_map_that_the_binding_allocates_is_refused(kind: type[Encode]) -> None:
    with installed("sm_90") as stub:
        encode = kind(stub)
        args = list(encode.arguments().values())[1:]
        assert getattr(stub, kind.function)(*args)[0].name == "CUDA_ERROR_INVALID_VALUE"
        assert "no multiple of 128" in stub.violations[0]


def test_the_driver_says_what_it_does_not_take() -> None:
    with installed("sm_90") as stub:
        memory = tw.nd.empty((64, 8), "float16", tw.cuda(0))
        runtime = tw.cuda(0).runtime
        described = TensorMap("float16", (64, 8), (128,), (64, 8), 128)
        with pytest.raises(TilewrightError, match="cuTensorMapEncodeTiled: CUDA_ERROR_INVALID_VAL"):
            runtime.tensor_map(memory._address + 8, described)
        assert stub.violations and isinstance(memory, DeviceArray)
        images = TensorMap(
            "float16", (64, 2, 4), (128, 256), (64, 8), 128, Pixels((0,), (0,), (1,))
        )
        with pytest.raises(TilewrightError, match="cuTensorMapEncodeIm2col: CUDA_ERROR_INVALID_VA"):
            runtime.tensor_map(memory._address + 8, images)


def test_a_driver_that_is_older_than_maps_says_so() -> None:
    api = Api(StubCuda("sm_90"))
    with pytest.raises(CudaError, match=r"is not there: the driver has it from CUDA 12\.1 on"):
        api.address("cuTensorMapEncode", 12010)


def test_a_map_is_copied_from_an_aligned_place() -> None:
    with installed("sm_90") as stub:
        encode = Encode(stub)
        encode()
        start = encode.map.address
        whole = ctypes.string_at(start, 128)
        assert start % 128 == 0 and stub.map_argument(start, whole)[2].box == (64, 128)
        for place, text in ((start + 64, "no multiple of 128"), (start, "is no tensor map")):
            with pytest.raises(Exception, match=text):
                stub.map_argument(place, whole if place != start else bytes(128))
