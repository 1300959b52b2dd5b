"""Double buffering: while one tile is being used, the next one is fetched into the other half.

python examples/09_double_buffer.py
"""

import numpy as np

import tilewright as tvm
from tilewright import te

N, TILE = 512, 64


def main():
    A = te.placeholder((N, N), name="A")
    B = te.compute((N, N), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    s = te.create_schedule(B.op)
    staged = s.cache_read(A, "global", [B])
    _, j = B.op.axis
    jo, ji = s[B].split(j, factor=TILE)
    s[B].vectorize(ji)
    s[staged].compute_at(s[B], jo)
    s[staged].double_buffer()

    text = str(tvm.lower(s, [A, B], simple_mode=True))
    print(text)
    if f"[{2 * TILE}]" not in text:
        raise SystemExit("the staging array does not have room for two tiles")

    func = tvm.build(s, [A, B], "llvm")
    data = np.random.default_rng(0).standard_normal((N, N)).astype("float32")
    out = tvm.nd.array(np.zeros_like(data))
    func(tvm.nd.array(data), out)
    tvm.testing.assert_allclose(out.numpy(), data * 2 + 1, rtol=1e-6)
    print("agrees with NumPy")


if __name__ == "__main__":
    main()
