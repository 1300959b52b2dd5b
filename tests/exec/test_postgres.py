"""Records in PostgreSQL, on a server of the tests' own: shared, kept over crashes, each once."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tilewright import auto_scheduler
from tilewright.auto_scheduler.record_file import read_records
from tilewright.base.errors import TilewrightError
from tilewright.cli.main import main
from tilewright.measure.result import Measurement
from tilewright.measure.store import Store

pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")


class Server:
    """A cluster in a folder of its own, reached through a socket there. It does not run as root."""

    def __init__(self, binaries: Path) -> None:
        where = "/tmp" if os.geteuid() == 0 else None  # which another user can enter, too
        self.binaries, self.folder = binaries, Path(tempfile.mkdtemp(prefix="pg", dir=where))
        self.owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            users = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = users.get("postgres") or users["nobody"]
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        words = ["-D", str(self.folder / "data"), "-U", "ada", "-A", "trust", "-N"]
        init = [str(binaries / "initdb"), *words]
        subprocess.run(init, check=True, capture_output=True, cwd=self.folder, **self.owner)
        self.start()

    def start(self) -> None:
        data, log = self.folder / "data", self.folder / "log"
        options = [f"unix_socket_directories={self.folder}", "listen_addresses=", "fsync=off"]
        words = [word for option in options for word in ("-c", option)]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [self.binaries / "postgres", "-D", data, *words],
                stdout=file, stderr=file, cwd=self.folder, **self.owner,
            )  # fmt: skip
        ready = [str(self.binaries / "pg_isready"), "-q", "-h", str(self.folder)]
        end = time.monotonic() + 60
        while subprocess.run(ready).returncode and time.monotonic() < end:
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.05)

    def crash(self) -> None:
        """End it without the care that an orderly end takes."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(60)

    def url(self, database: str) -> str:
        """Of a new database."""
        create = [str(self.binaries / "createdb"), "-h", str(self.folder), "-U", "ada", database]
        subprocess.run(create, check=True)
        return f"postgresql://ada:secret@/{database}?host={self.folder}"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    binaries = next((f for f in reversed(folders) if (f / "postgres").exists()), None)
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed")
    made = Server(binaries)
    yield made
    made.crash()
    shutil.rmtree(made.folder)


WRITERS = """
import os, sys
from tilewright.measure.result import Measurement
from tilewright.measure.store import Store

url, log, workers, count = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

def work(who):
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Store(url) as store:
        for n in range(count):
            store.add(f"t{n % 3}", "llvm", f"{who}-{n}", Measurement((1.0,), timestamp=float(n)))
            os.write(told, f"{who}-{n}\\n".encode())

children = []
for who in range(workers):
    children.append(os.fork())
    if not children[-1]:
        work(who)
        os._exit(0)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


def test_a_server_that_crashes_loses_and_doubles_nothing(server: Server, tmp_path: Path) -> None:
    url, log, workers, count = server.url("crash"), tmp_path / "log", 4, 200
    words = [sys.executable, "-c", WRITERS, url, str(log), str(workers), str(count)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    begun: set[str] = set()
    while len(begun) < workers and process.poll() is None:
        time.sleep(0.01)
        begun = {line.split("-")[0] for line in log.read_text().split()} if log.exists() else begun
    server.crash()
    told = log.read_text().split()
    assert len(told) < workers * count, "it crashed too late"
    time.sleep(0.2)
    server.start()
    with Store(url, create=False) as store:
        assert set(told) <= {row[3] for row in store.read()}
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 0, error
    with Store(url, create=False) as store:
        kept = [row[3] for row in store.read()]
        assert sum(n for _, _, n in store.tasks()) == len(kept)
    assert len(kept) == len(set(kept)) == workers * count
    assert set(kept) == set(log.read_text().split())


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


OPERATOR = """
from tilewright import te
def product(n):
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]
"""


def test_searches_at_one_time_share_what_they_measure(server: Server, tmp_path: Path) -> None:
    url, trials = server.url("shared"), 8
    (tmp_path / "op.py").write_text(OPERATOR)
    words = ["tune", f"{tmp_path}/op.py:product", "32", "--trials", str(trials), "--records", url]
    command = [sys.executable, "-m", "tilewright", *words, "--json", "--quiet"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    reports = [json.loads(p.communicate(timeout=120)[0]) for p in both]
    assert [p.returncode for p in both] == [0, 0]
    assert reports[0]["records"].startswith("postgresql://ada:***@/shared")
    (task,) = json.loads(call("records", "show", url, "--json").stdout)["tasks"]
    total = task["measurements"]
    assert total == sum(r["measured"] for r in reports)
    # what both had in hand when the last was recorded comes on top
    assert trials <= total < 2 * trials and sum(task["by"].values()) == total
    again = json.loads(call(*words, "--json", "--quiet").stdout)
    assert (again["measured"], again["known"]) == (0, total)
    history = auto_scheduler.ApplyHistoryBest(url)
    assert history.steps("llvm", task["workload_key"]) is not None
    best, result = auto_scheduler.load_best_record(url, task["workload_key"], "llvm")
    assert best is not None and result is not None and result.cost == task["best_s"]
    page = tmp_path / "report.html"
    assert call("report", url, "-o", page).exit_code == 0
    assert "secret" not in page.read_text()


def test_records_go_from_files_to_a_server_and_back(server: Server, tmp_path: Path) -> None:
    url, file = server.url("files"), tmp_path / "a.db"
    with Store(file) as store:
        for n in range(5):
            steps = json.dumps(["v0.6", [], [["AN", n, 0, 3]]])
            store.add('["f", 1]', "llvm", steps, Measurement((1.0 + n,), timestamp=float(n)))
    assert (
        "5 records written to postgresql://ada:***@"
        in call("records", "import", file, "-o", url).stdout
    )
    assert "0 records" in call("records", "import", file, "-o", url).stdout
    assert "5 records" in call("records", "merge", url, file, "-o", tmp_path / "b.db").stdout
    assert list(read_records(url)) == list(read_records(tmp_path / "b.db"))
    refused = call("records", "merge", file, "-o", url)
    assert refused.exit_code == 2 and "records import" in refused.stderr


def test_what_cannot_be_used_is_said_without_the_password(server: Server) -> None:
    url = server.url("empty")
    with pytest.raises(TilewrightError, match="holds no records of tilewright's yet"):
        list(read_records(url))
    with pytest.raises(TilewrightError) as caught:
        Store(url.replace("/empty", "/nowhere"))
    text = str(caught.value)
    assert 'database "nowhere" does not exist' in text and "secret" not in text
    with pytest.raises(
        TilewrightError, match=r"cannot use postgresql://127\.0\.0\.1:1/x as a store"
    ):
        Store("postgresql://127.0.0.1:1/x")
    with Store(url) as store:
        store._link.insert("tilewright_store", [{"version": 99}])
    with pytest.raises(TilewrightError, match="has version 99, this tilewright reads up to"):
        Store(url)
