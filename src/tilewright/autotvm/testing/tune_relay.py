"""TVM's script that tunes a network of Relay: `autotvm.testing.tune_relay`."""

from __future__ import annotations

from ...base.errors import TilewrightError


def main() -> None:
    """There is no Relay. Raises TilewrightError where it is called at all, since there are no
    networks of Relay."""
    raise TilewrightError(
        "tune_relay takes networks of Relay: `tilewright tune MODEL.onnx` tunes a network"
    )
