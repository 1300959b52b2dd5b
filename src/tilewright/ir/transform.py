"""`tvm.ir.transform`: options of compilation and passes."""

from ..transform import *  # noqa: F403
