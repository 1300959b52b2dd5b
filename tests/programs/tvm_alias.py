"""Run a program in which `tvm` and its submodules are tilewright's: tvm_alias.py PROGRAM.

Where the machine has no compiler, what needs one is skipped: tests of a program that runs pytest
one by one, another program as a whole, with the exit code SKIPPED.
"""

import os
import re
import runpy
import shutil
import sys

import pytest

SKIPPED = 77
WITHOUT = re.compile("no C compiler was found|no linker found")


def lacking(error):
    """Why a program cannot go on here, if that is for lack of a compiler."""
    found = not any(map(shutil.which, ("cc", "gcc", "clang")))
    return str(error) if found and WITHOUT.search(str(error)) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    try:
        return (yield)
    except Exception as error:
        reason = lacking(error)
        if reason is None:
            raise
        error.__traceback__ = None  # what the test holds is given back
    pytest.skip(reason)


def main():
    import tilewright.as_tvm  # noqa: F401 - from here on, tvm is tilewright

    sys.argv = sys.argv[1:]
    os.environ["PYTEST_PLUGINS"] = "tvm_alias"  # for programs that run pytest
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except Exception as error:
        reason = lacking(error)
        if reason is None:
            raise
        error.__traceback__ = None
    else:
        return
    print(reason)
    sys.exit(SKIPPED)


if __name__ == "__main__":
    main()
