"""CUDA source run on a CPU, as C++: what its text says, where no GPU can say it.

simt runs the loop IR of kernels, and NVRTC compiles their text without running it: what the text
says otherwise than the loop IR would be seen on a device alone. Here the text is compiled by a C++
compiler. `language.h` has what CUDA has and C++ lacks, `threads.h` lets the threads of a block be
fibers, `ptx.h` does what the asm statements say, which `asm.py` makes calls. wgmma, TMA and
barriers that count bytes are not there; sources for sm_90a are refused.
"""

from tests.cuda_text.device import kernels_as_text
from tests.cuda_text.program import Program

__all__ = ["Program", "kernels_as_text"]
