"""`python3 device.pyz`: what an archive for a board (`archive`) runs when it is started.

It uses nothing but Python's own library, and what old Pythons read too, to say what is missing.
Extensions cannot be loaded from a zip file, so that the archive unpacks itself first, once, into a
folder of the user's cache that is named by the archive's content.
"""

import atexit
import contextlib
import errno
import importlib.util
import json
import os
import platform
import shutil
import stat
import sys
import tempfile
import zipfile
from typing import Any

ABOUT = "about.json"
CERTIFICATES = "certificates"
_MISTAKE = 2


def missing(about: Any) -> str:
    """Why this machine cannot run an archive; empty where it can."""
    wants, has = str(about["python"]), ".".join(map(str, sys.version_info[:2]))
    machine = {"arm64": "aarch64"}.get(platform.machine(), platform.machine())
    again = (
        "make one with `tilewright fleet archive --machine " + machine + " --python " + has + "`"
    )
    its_machine = str(about["machine"])
    if machine != its_machine or sys.platform != "linux":
        what = sys.platform + " on " + machine
        return "this archive is for linux on " + its_machine + ", and this is " + what
    if has != wants:
        return "this archive is for Python " + wants + ", and this is Python " + has + ": " + again
    if importlib.util.find_spec("numpy") is None:
        return "NumPy is not installed: apt install python3-numpy, or pip install numpy"
    return ""


def unpacked(archive: str, about: Any) -> str:
    """The folder with an archive's content, which is made by the first of those who ask."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = os.path.join(cache, "tilewright", "device-" + about["digest"])
    if os.path.isdir(place):
        return place
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=os.path.dirname(place))
    except OSError:  # no home that can be written to: for this once
        fresh = tempfile.mkdtemp(prefix="tilewright-device-")
        atexit.register(shutil.rmtree, fresh, ignore_errors=True)
        place = ""
    try:
        with zipfile.ZipFile(archive) as content:
            content.extractall(fresh)
        folder = os.path.join(fresh, CERTIFICATES)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            os.chmod(os.path.join(folder, name), stat.S_IRUSR | stat.S_IWUSR)
        if place:
            os.rename(fresh, place)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        # another start was faster: what it has unpacked is the same
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY) or not os.path.isdir(place):
            raise
    return place or fresh


def main() -> int:
    """Be a device of a fleet, as `tilewright device` is."""
    archive = os.path.dirname(os.path.abspath(__file__))
    with zipfile.ZipFile(archive) as content:
        about = json.loads(content.read(ABOUT).decode())
    why = missing(about)
    try:
        folder = "" if why else unpacked(archive, about)
    except OSError as error:
        why = "the archive cannot be unpacked: " + str(error)
    if why:
        sys.stderr.write("error: " + why + "\n")
        return _MISTAKE
    sys.path[:] = [folder] + [p for p in sys.path if os.path.abspath(p or ".") != archive]
    own = os.path.join(folder, CERTIFICATES)
    args = sys.argv[1:]
    if os.path.isdir(own) and not any(a.startswith("--certificates") for a in args):
        args += ["--certificates", own]
    from tilewright.cli.fleet import run_device

    with contextlib.suppress(BrokenPipeError):
        run_device("python3", os.path.basename(archive), args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
