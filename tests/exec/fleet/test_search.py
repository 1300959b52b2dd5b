"""Searches over a fleet find what they find here, given the same measurements."""

import concurrent.futures
import json
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.unit.measure.runner_kit import product
from tilewright import auto_scheduler, autotvm, runtime, te
from tilewright.contrib import cc
from tilewright.fleet.local import LocalFleet
from tilewright.fleet.work import digest, pretended_cost
from tilewright.measure.process import environment
from tilewright.measure.result import Measurement
from tilewright.measure.runner import Measures, Timing
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker


class Pretending(Measures):
    """What a fleet of pretending devices does, in this process."""

    def __init__(self, timing: Timing) -> None:
        self.timing = timing
        self.programs: dict[int, Any] = {}

    def close(self) -> None:
        self.programs.clear()

    def warm(self) -> None:
        """Nothing to start."""

    def submit(self, program: Any) -> int:
        self.programs[len(self.programs)] = program
        return len(self.programs) - 1

    def forget(self, tickets: Iterable[int]) -> None:
        """Tickets are numbers of programs: all are kept."""

    def run(
        self, tickets: Sequence[int], best: object = None
    ) -> Generator[tuple[int, Measurement], None, None]:
        for t in tickets:
            yield t, Measurement((pretended_cost(digest(self.programs[t])),))

    def build(self, programs: Iterable[Any]) -> list[Measurement]:
        """Nothing is compiled."""
        return [Measurement(()) for _ in programs]


class HereAuto(auto_scheduler.LocalRunner):
    def measurer(self, timing: Timing) -> Any:
        return Pretending(timing)


class HereTemplate(autotvm.LocalRunner):
    def measurer(self, timing: Timing) -> Any:
        return Pretending(timing)


@auto_scheduler.register_workload
def fleet_test_product(n: int) -> list[Any]:
    A, B = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), "k")
    return [A, B, te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def searched(
    runner: Any, path: Path, policy: Any = auto_scheduler.SketchPolicy, trials: int = 24
) -> dict[str, float]:
    """Cost by schedule, of all that a search has measured."""
    task = auto_scheduler.SearchTask(func=fleet_test_product, args=(60,), target="llvm")
    made = policy(
        task, auto_scheduler.RandomModel(), verbose=0, params={"evolutionary_search_population": 64}
    )
    option = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=8,
        builder=auto_scheduler.LocalBuilder(timeout=60),
        runner=runner,
        measure_callbacks=[auto_scheduler.RecordToFile(str(path))],
        verbose=0,
    )
    task.tune(option, made)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {json.dumps(line["i"]): line["r"][0][0] for line in lines}


def test_the_auto_scheduler(pretending: LocalFleet, tmp_path: Path) -> None:
    here = searched(HereAuto(), tmp_path / "here.json")
    there = searched(auto_scheduler.DaskRunner(pretending), tmp_path / "there.json")
    assert len(here) >= 20 and there == here


class Noted(auto_scheduler.SketchPolicy):
    """Notes how many candidates are out when a round more is found."""

    out: ClassVar[list[int]] = []

    def propose_round(self, count: int) -> Iterator[Any]:
        self.out.append(len(self._out))
        return super().propose_round(count)


def test_a_search_goes_on_while_rounds_are_out(tmp_path: Path) -> None:
    with LocalFleet(6, builders=2, pretends=0.05) as fleet:
        runner = auto_scheduler.DaskRunner(fleet)
        there = searched(runner, tmp_path / "there.json", Noted, 64)
    assert len(there) >= 50 and max(Noted.out) > 2  # a search that waits has none out
    here = searched(HereAuto(), tmp_path / "here.json", trials=64)
    both = there.keys() & here.keys()
    assert len(both) >= 8 and all(there[k] == here[k] for k in both)


@autotvm.template("fleet_test/product")
def template(n: int) -> tuple[Any, list[Any]]:
    A, B, C = fleet_test_product(n)
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, yi, xi)
    return s, [A, B, C]


def tuned(runner: Any, path: Path) -> dict[int, float]:
    task = autotvm.task.create("fleet_test/product", args=(64,), target="llvm")
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=60), runner=runner)
    tuner = autotvm.tuner.GridSearchTuner(task)
    tuner.tune(
        n_trial=16, measure_option=option, callbacks=[autotvm.callback.log_to_file(str(path))]
    )
    return {i.config.index: r.costs[0] for i, r in autotvm.record.load_from_file(str(path))}


def test_templates(pretending: LocalFleet, tmp_path: Path) -> None:
    here = tuned(HereTemplate(number=1), tmp_path / "here.log")
    there = tuned(autotvm.DaskRunner(pretending, number=1), tmp_path / "there.log")
    host, _, port = pretending.address.rpartition(":")
    tracker = autotvm.RPCRunner("local", host, int(port), number=1)
    assert len(here) == 16 and there == here
    assert tuned(tracker, tmp_path / "tracker.log") == here


def test_names_of_scripts_for_boards(real: LocalFleet) -> None:
    host, _, port = real.address.removeprefix("tcp://").rpartition(":")
    runner = auto_scheduler.RPCRunner("local", host, int(port), timeout=60, number=1)
    task = auto_scheduler.SearchTask(func=fleet_test_product, args=(16,), target="llvm")
    inputs = [auto_scheduler.MeasureInput(task, task.compute_dag.init_state)]
    for builder in (auto_scheduler.DaskBuilder(real, 60), auto_scheduler.LocalBuilder(60)):
        (built,) = builder.build(inputs)
        assert runtime.load_module(built.filename)["candidate"]
        (found,) = runner.run(inputs, [built])
        assert found.error_no == 0 and 0 < found.costs[0] < 1


@pytest.fixture(scope="module")
def board() -> Generator[tuple[str, int], None, None]:
    """Host and port of a tracker with one server of key "board", and nobody who compiles."""
    with Tracker(port=9300, port_end=9400) as tracker:
        address = (tracker.host, tracker.port)
        with Server(key="board", tracker_addr=address):
            yield address


def test_boards_behind_a_tracker_are_asked_for_by_name(
    board: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, methods = autotvm.measure.request_remote, autotvm.measure.measure_methods
    utils = auto_scheduler.utils
    with requests("board", *board, priority=2, timeout=30) as remote:
        assert remote.cpu().exist
        assert not utils.check_remote("board", *board, timeout=0.5)  # another has it
    assert utils.check_remote("board", *board)
    assert methods.check_remote("llvm -mcpu=znver3", "board", *board)
    assert not methods.check_remote("vulkan", "board", *board, timeout=1)  # it has none
    assert not utils.check_remote("other", *board)
    monkeypatch.setenv("TVM_TRACKER_HOST", board[0])
    monkeypatch.setenv("TVM_TRACKER_PORT", str(board[1]))
    with utils.request_remote("board") as remote:
        remote.upload(bytearray(b"x"), "f")
        assert remote.listdir() == ["f"]


@pytest.mark.filterwarnings("ignore:device .* of the fleet is set aside")
def test_runners_of_boards_need_nobody_who_compiles_but_this_machine(
    board: tuple[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = auto_scheduler.RPCRunner("board", *board, timeout=30, min_repeat_ms=1, repeat=2)
    assert "Get devices for measurement successfully!" in capsys.readouterr().out
    found = searched(runner, tmp_path / "rpc.json", trials=4)
    assert len(found) == 4 and all(0 < cost < 1 for cost in found.values())
    with pytest.raises(RuntimeError, match="Cannot get remote devices"):
        auto_scheduler.RPCRunner("other", *board)
    task: Any = autotvm.task.create("fleet_test/product", args=(16,), target="llvm")
    there = autotvm.RPCRunner("board", *board, number=1, repeat=4, cooldown_interval=0)
    there.set_task(task)
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(0))]
    built = autotvm.LocalBuilder(timeout=60).build(inputs)
    (result,) = there.run(inputs, built)
    assert result.error_no == 0 and len(result.costs) == 2
    there.module_loader = autotvm.measure.default_module_loader()
    (result,) = there.run(inputs, built)
    assert result.error_no == 0 and len(result.costs) == 2


@pytest.mark.filterwarnings("ignore:device .* of the fleet is set aside")
def test_a_tracker_and_a_server_of_this_machine(tmp_path: Path) -> None:
    context = auto_scheduler.LocalRPCMeasureContext(repeat=3, min_repeat_ms=1, n_parallel=2)
    tracker, server, runner = context.tracker, context.server, context.runner
    assert isinstance(tracker, Tracker) and isinstance(server, Server)
    assert isinstance(runner, auto_scheduler.RPCRunner) and 9000 <= tracker.port < 10000
    assert (runner.key, runner.port) == (server.key, tracker.port)
    assert (runner.repeat, runner.min_repeat_ms, runner.timeout, runner.number) == (3, 1, 10, 3)
    found = searched(runner, tmp_path / "local.json", trials=3)
    assert len(found) == 3
    costs = [r.costs for _, r in auto_scheduler.load_records(str(tmp_path / "local.json"))]
    assert all(len(c) == 3 for c in costs)
    assert auto_scheduler.LocalRPCMeasureContext().min_repeat_ms == 0


def test_candidates_that_are_linked_here_run_there(real: LocalFleet, tmp_path: Path) -> None:
    linked: list[str] = []

    def link(output: str, objects: Any, **options: Any) -> None:
        linked.append(output)
        cc.create_shared(output, objects, **options)

    link.output_format = "so"  # type: ignore[attr-defined]
    builder = autotvm.LocalBuilder(timeout=60, build_func=link)
    runner = autotvm.DaskRunner(real, timeout=60, number=1, repeat=2, cooldown_interval=0)
    task: Any = autotvm.task.create("fleet_test/product", args=(16,), target="llvm")
    inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(n)) for n in (0, 1)]
    found = runner.run(inputs, builder.build(inputs))
    assert len(linked) == 2 and [(r.error_no, len(r.costs)) for r in found] == [(0, 2)] * 2
    executor = Executor()
    runner.executor = executor
    (alone,) = runner.run(inputs[:1], builder.build(inputs[:1]))
    assert alone.error_no == 0 and executor.places == [runner.place]


class Executor:
    """Runs functions at once, and notes where candidates are to be timed."""

    def __init__(self) -> None:
        self.places: list[Any] = []

    def submit(self, func: Any, *args: Any, **given: Any) -> Any:
        done: Any = concurrent.futures.Future()
        self.places.append(given["place"])
        done.set_result(func(*args, **given))
        return done


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "op.py").write_text(
        "from tilewright import te\n"
        "def square(n):\n"
        "    A = te.placeholder((n, n), name='A')\n"
        "    k = te.reduce_axis((0, n), 'k')\n"
        "    B = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name='B')\n"
        "    return [A, B]\n"
    )
    command = [
        sys.executable, "-m", "tilewright", "tune", "op.py:square", "32", "--trials", "6",
        "--records", "r.db", "--fleet", "local:1", "--json", "--quiet",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=environment(), timeout=180
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["measured"] == 6 and 0 < report["best_s"] < 1
    origins = {r.origin for _, r in auto_scheduler.load_records(tmp_path / "r.db")}
    assert [o.device.startswith("device") for o in origins] == [True], origins
    for wrong, says in (
        (["--fleet", "local:x"], "a number of devices"),
        (["--fleet", "local:0"], "a number of devices"),
        (["--priority", "2"], "name it with --fleet"),
        (["--fleet", "tcp://127.0.0.1:1"], "no fleet answers"),
    ):
        bad = subprocess.run(
            [*command[:9], "other.json", *wrong, "--quiet"],
            cwd=tmp_path, capture_output=True, text=True, env=environment(), timeout=120,
        )  # fmt: skip
        assert bad.returncode == 2 and says in bad.stderr, (wrong, bad.stderr)


@pytest.mark.parametrize(
    "name", ["--help", "init --help", "scheduler --help", "status --help", "archive --help"]
)
def test_help(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "fleet", *name.split()],
        capture_output=True, text=True, env=environment(), timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and "Usage: " in done.stdout


def test_programs_are_named_alike_wherever_they_are_made() -> None:
    assert digest(product(2)) == digest(product(2)) != digest(product(4))
