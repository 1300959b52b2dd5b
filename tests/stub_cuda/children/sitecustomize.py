"""Found by processes that a test starts with this folder in PYTHONPATH: they get the stub, too."""

import os

if os.environ.get("TILEWRIGHT_TEST_STUB"):
    from tests.stub_cuda.install import install

    install(os.environ["TILEWRIGHT_TEST_STUB"])
