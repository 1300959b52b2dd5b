"""A CUDA driver without a device, which holds every call to what the real one documents.

`StubCuda(arch)` behaves as `cuda.bindings.driver`: memory is the host's, streams run at once,
kernels run in simt. What the driver refuses gets the driver's error, and what it leaves undefined
(memory outside of an allocation, a copy beyond its end, too little shared memory) gets one, too;
`violations` says why, in words. `installed(arch)` puts it in the place of `cuda(0)`, with a
compiler whose cubins name the source that they are of.
"""

from tests.stub_cuda.binding import StubCuda as StubCuda
from tests.stub_cuda.install import installed as installed
