"""The store keeps what it was given, once, whoever is killed and whoever writes beside it."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.base.errors import TilewrightError
from tilewright.measure import sqlite_file
from tilewright.measure.origin import here, here_for
from tilewright.measure.places import Url, is_store, place_of, shown
from tilewright.measure.records import read_lines
from tilewright.measure.result import MeasureErrorNo, Measurement, Origin
from tilewright.measure.store import Store
from tilewright.target.target import Target


def test_a_store_gives_back_what_it_was_given(tmp_path: Path) -> None:
    good = Measurement((1.0, 1e-9), seconds=2.5, timestamp=3.0, early=True)
    bad = Measurement((), MeasureErrorNo.RUN_TIMEOUT, "läuft", 1.0, 4.0)
    with Store(tmp_path / "s.db") as store:
        store.add("t", "llvm", "a", good)
        store.add("t", "llvm", "b", bad)
        store.add("t", "cuda", "a", bad)
    with Store(tmp_path / "s.db") as store:
        assert store.find("t", "llvm") == [("a", good), ("b", bad)]
        assert store.find("u", "llvm") == []
        assert sorted(store.tasks()) == [("t", "cuda", 1), ("t", "llvm", 2)]


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database, but long enough to be read as one" * 40)
    with pytest.raises(TilewrightError, match=r"cannot use .*s\.db as a store"):
        Store(path)
    with pytest.raises(TilewrightError, match="as a store"):
        Store(tmp_path / "missing" / "s.db")


def test_no_connection_is_left_where_a_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.13 and later warn of one that is."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remembered(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    (tmp_path / "s.db").write_text("no database" * 1000)
    for create in (False, True):
        with pytest.raises(TilewrightError, match=r"s\.db"):
            Store(tmp_path / "s.db", create=create)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            made.pop().execute("SELECT 1")
        assert not made


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "s.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(TilewrightError, match="version 99"):
        Store(tmp_path / "s.db")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    store.close()
    with pytest.raises(TilewrightError, match="closed"):
        store.find("t", "llvm")


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """SQLite's own limit on a file stands for the disk."""
    with Store(tmp_path / "s.db") as store:
        store.add("t", "llvm", "a", Measurement((1.0,)))
        store._link.read("PRAGMA max_page_count = 1", {})
        with pytest.raises(TilewrightError, match="no space left for"):
            store.add("t", "llvm", "b" * 100000, Measurement((1.0,)))
        assert [c for c, _ in store.find("t", "llvm")] == ["a"]


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError, match="cannot use"):
        Store(tmp_path / "s.db", create=False)
    assert os.listdir(tmp_path) == []


def test_all_measurements_are_read_in_order(tmp_path: Path) -> None:
    results = [Measurement((float(n + 1),), timestamp=1.0) for n in range(5)]
    with Store(tmp_path / "s.db") as store:
        for n, result in enumerate(results):
            store.add(f"t{n % 2}", "llvm", str(n), result)
    with Store(tmp_path / "s.db", create=False) as store:
        rows = [(n + 1, f"t{n % 2}", "llvm", str(n), results[n]) for n in range(5)]
        assert list(store.read()) == rows
        assert [c for _, _, _, c, _ in store.read("t1")] == ["1", "3"]


def test_damaged_text_costs_its_row_or_names_the_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store(path) as store:
        for n in range(3):
            store.add(f"task{n}", "llvm", f"candidate{n}", Measurement((float(n + 1),)))
    data = path.read_bytes()
    assert data.count(b"candidate1") == 1 and data.count(b"CREATE TABLE measurement")
    path.write_bytes(data.replace(b"candidate1", b"\xff\xfe\xfd" + b"idate1x"))
    with Store(path) as store:
        assert [row[3] for row in store.read()][::2] == ["candidate0", "candidate2"]
    path.write_bytes(data.replace(b"CREATE TABLE measurement", b"\xff\xfeEATE TABLE measurement"))
    with pytest.raises(TilewrightError, match="as a store"), Store(path) as store:
        list(store.read())


def test_a_killed_process_has_kept_what_it_reported(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    code = f"""
import os, signal
from tilewright.measure.records import append_line
from tilewright.measure.store import Store
from tilewright.measure.result import Measurement
store = Store({str(path)!r})
for i in range(5):
    store.add("t", "llvm", str(i), Measurement((float(i),)))
    append_line({str(tmp_path / "log")!r}, '{{"n": %d}}' % i)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code])
    assert done.returncode == -signal.SIGKILL
    with Store(path) as store:
        assert [c for c, _ in store.find("t", "llvm")] == list("01234")
    assert [value for _, value in read_lines(tmp_path / "log")] == [{"n": i} for i in range(5)]


CROWD = """
import os, random, signal, sys, time
from tilewright.measure.result import Measurement
from tilewright.measure.store import Store

path, log, workers, count, kills = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
rng = random.Random(int(os.environ["CROWD_SEED"]))

def work(who):
    told = os.open(f"{log}.{who}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with Store(path) as store:
        kept = {c for task in ("t0", "t1", "t2") for c, _ in store.find(task, "llvm")}
        assert set(open(f"{log}.{who}").read().split()) <= kept, "what was told is lost"
        done = False
        while not done:  # again and again, which adds nothing, until all kills are done
            done = os.path.exists(f"{log}.over")
            for n in range(count):
                result = Measurement((1.0,), timestamp=float(n))
                store.add(f"t{n % 3}", "llvm", f"{who}-{n}", result)
                os.write(told, f"{who}-{n}\\n".encode())

def begin(who):
    child = os.fork()
    if child:
        return child
    work(who)
    os._exit(0)

live = [begin(who) for who in range(workers)]
for _ in range(kills):
    time.sleep(rng.uniform(0, 0.05))
    who = rng.randrange(workers)
    os.kill(live[who], signal.SIGKILL)
    _, status = os.waitpid(live[who], 0)
    assert os.WIFSIGNALED(status), status  # else it had failed
    live[who] = begin(who)
open(f"{log}.over", "w").close()
assert [os.waitpid(child, 0)[1] for child in live] == [0] * workers
"""


def test_many_writers_and_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    path, log = tmp_path / "s.db", tmp_path / "log"
    workers, count, kills = 8, 200, 40
    seed = str(int.from_bytes(os.urandom(3), "big"))
    done = subprocess.run(
        [sys.executable, "-c", CROWD, str(path), str(log), *map(str, (workers, count, kills))],
        env={**os.environ, "CROWD_SEED": seed}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, (seed, done.stderr)
    told = {line for w in range(workers) for line in Path(f"{log}.{w}").read_text().split()}
    with Store(path, create=False) as store:
        kept = [row[3] for row in store.read()]
    assert len(kept) == len(set(kept)) == workers * count and set(kept) == told, seed
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_a_limit_on_files_is_said_and_costs_nothing_before_it(tmp_path: Path) -> None:
    """The kernel refuses to let a file grow, as it does on a full disk."""
    path = tmp_path / "s.db"
    code = f"""
import resource
from tilewright.base.errors import TilewrightError
from tilewright.measure.result import Measurement
from tilewright.measure.store import Store
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, -1))
with Store({str(path)!r}) as store:
    for n in range(1000):
        try:
            store.add("t", "llvm", f"{{n}}" + "x" * 1000, Measurement((1.0,)))
        except TilewrightError as error:
            print(n, error)
            break
    assert len(store.find("t", "llvm")) == n
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    store.add("t", "llvm", "there is room again", Measurement((1.0,)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    number, text = done.stdout.strip().split(" ", 1)
    assert 10 < int(number) < 300 and text == (
        f"cannot write {path} (a full disk, a limit on the sizes of files, or a disk that fails): "
        "the measurement was not kept, those before it were"
    )
    with Store(path) as store:
        assert len(store.find("t", "llvm")) == int(number) + 1


def test_what_is_there_is_not_added_again(tmp_path: Path) -> None:
    def entry(n: int, when: float = 1.0) -> tuple[str, str, str, Measurement]:
        return "t", "llvm", str(n), Measurement((1.0,), timestamp=when)

    with Store(tmp_path / "s.db") as store:
        assert store.add_all([entry(n) for n in range(600)]) == 600
        assert store.add_all([entry(n) for n in range(-1, 601)]) == 2
        assert store.add_all([entry(5), entry(5), entry(5, 2.0)]) == 1
        store.add(*entry(5))
        assert len(store.find("t", "llvm")) == 603


def test_a_store_says_who_measured(tmp_path: Path) -> None:
    origin = Origin("ada", "lab", "board-7", "1.0")
    with Store(tmp_path / "s.db") as store:
        store.add("t", "llvm", "a", Measurement((1.0,), origin=origin))
        ((_, found),) = store.find("t", "llvm")
    assert found.origin == origin and str(origin) == "ada@lab on board-7"
    mine = here_for(Target("llvm"))
    assert mine.host and mine.version and mine.device == Target("llvm").cpu
    assert here("board").device == "board" and here_for(Target("vulkan")).device == ""


def test_searches_hear_of_each_other_once(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as one, Store(tmp_path / "s.db") as two:
        one.add("t", "llvm", "before", Measurement((1.0,)))
        assert (one.begin_search(), two.begin_search()) == (0, 1)
        seen: set[int] = set()
        assert [c for _, c, _ in one.find_others("t", seen)] == ["before"]
        one.add("t", "llvm", "mine", Measurement((1.0,)))
        two.add("t", "llvm", "hers", Measurement((1.0,)))
        two.add("u", "llvm", "another task", Measurement((1.0,)))
        assert [c for _, c, _ in one.find_others("t", seen)] == ["hers"]
        assert one.find_others("t", seen) == []
        assert [c for _, c, _ in two.find_others("t", set())] == ["before", "mine"]


def old_store(path: Path) -> None:
    """A file of version 1, with one measurement twice and a text that is none."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute(
        "CREATE TABLE measurement (id INTEGER PRIMARY KEY, task TEXT NOT NULL, target TEXT NOT "
        "NULL, candidate TEXT NOT NULL, costs TEXT NOT NULL, error INTEGER NOT NULL, message TEXT "
        "NOT NULL, seconds REAL NOT NULL, timestamp REAL NOT NULL, early INTEGER NOT NULL)"
    )
    for candidate in "aab":
        row = ("t", "llvm", candidate, "[1.0]", 0, "", 0.0, 5.0, 0)
        db.execute("INSERT INTO measurement VALUES (NULL,?,?,?,?,?,?,?,?,?)", row)
    db.execute("UPDATE measurement SET message = CAST(x'FF41' AS TEXT) WHERE candidate = 'b'")
    db.execute("PRAGMA user_version = 1")
    db.close()


def test_an_older_store_is_read_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    old_store(path)
    before = path.read_bytes()
    with Store(path, create=False) as store:
        assert [row[3] for row in store.read("t")] == ["a", "a", "b"]
        assert store.find("t", "llvm")[0][1].origin == Origin()
    assert path.read_bytes() == before
    with Store(path) as store:
        assert [c for c, _ in store.find("t", "llvm")] == ["a", "a", "b"]
        entries = [("t", "llvm", c, Measurement((1.0,), timestamp=5.0)) for c in "abc"]
        assert store.add_all(entries) == 1 and store.begin_search() == 0


def test_a_lock_that_is_not_let_go_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "PATIENCE", 0.2)
    monkeypatch.setattr(sqlite_file, "_WAIT", 0.1)
    with Store(tmp_path / "s.db") as store:
        other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TilewrightError, match=r"another process has held .* locked"):
            store.add("t", "llvm", "a", Measurement((1.0,)))
        other.execute("ROLLBACK")
        store.add("t", "llvm", "a", Measurement((1.0,)))
        other.close()


def test_places_are_paths_and_urls(tmp_path: Path) -> None:
    assert place_of("a.db") == Path("a.db") == place_of(Path("a.db"))
    assert place_of("sqlite:////tmp/a%20b.db") == Path("/tmp/a b.db")
    url = place_of("postgresql://ada:se:cret@host/db?password=cret")
    assert isinstance(url, Url) and place_of(url) is url and is_store(url)
    assert shown(url) == "postgresql://ada:***@host/db?password=***"
    assert shown("postgresql://host/db") == "postgresql://host/db"
    assert not is_store(tmp_path / "nothing")
    for wrong in ("sqlite://", "sqlite:///:memory:?x=1", 7, ""):
        with pytest.raises(TilewrightError):
            place_of(wrong)


def test_a_url_needs_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TilewrightError, match=r"at postgresql://h/db need SQLAlchemy: pip install"):
        Store("postgresql://h/db")


def test_sqlalchemy_reaches_the_same_store(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")
    url = f"sqlite+pysqlite:///{tmp_path}/s.db"
    with pytest.raises(TilewrightError, match="holds no records"):
        Store(url, create=False)
    result = Measurement((1.0, 2.5), MeasureErrorNo(0), "", 2.0, 3.0, True, Origin("ada", "lab"))
    entries = [("t" * 5000, "llvm", str(n), result) for n in range(450)]
    with Store(url) as one, Store(url) as two:
        assert (one.begin_search(), two.begin_search()) == (0, 1)
        assert (one.add_all(entries), two.add_all([*entries, ("t", "llvm", "a", result)])) == (
            450,
            1,
        )
        assert one.find("t" * 5000, "llvm")[7] == ("7", result)
        assert [c for _, c, _ in one.find_others("t", set())] == ["a"]
        assert one.tasks() == [("t", "llvm", 1), ("t" * 5000, "llvm", 450)]
    with pytest.raises(TilewrightError, match="cannot use nosuch://h/d as a store"):
        Store("nosuch://h/d")
