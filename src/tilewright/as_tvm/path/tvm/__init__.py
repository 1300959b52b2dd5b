"""`tvm` as child processes of `tilewright.as_tvm` find it: tilewright, under that name."""

import sys

from tilewright.as_tvm.finder import module_of_tvm

sys.modules[__name__] = module_of_tvm()
