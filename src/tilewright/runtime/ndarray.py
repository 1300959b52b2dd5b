"""`tvm.runtime.ndarray`: arrays and devices."""

from ..nd import *  # noqa: F403
