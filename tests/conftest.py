"""For every test: programs are verified after each pass, the user's cache is left alone."""

import atexit
import os
import tempfile

_scratch = tempfile.TemporaryDirectory(prefix="tilewright-tests-")
os.environ["TILEWRIGHT_CACHE_DIR"] = _scratch.name
os.environ.setdefault("TILEWRIGHT_VERIFY", "1")

# not a hook of pytest: workers may end without being asked to tidy up
atexit.register(_scratch.cleanup)
