"""te.hybrid.runtime: what scripts call when they run as Python."""

from ...tensor.hybrid.runtime import *  # noqa: F403
