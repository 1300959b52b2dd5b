"""Search tasks: a computation with fixed shapes, a target, and how it may be searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import TargetError, TilewrightError, UsageError
from ..measure.places import shown
from ..schedule.api import Schedule
from ..target.target import Target
from ..tensor.tensor import Tensor
from .dag import ComputeDAG
from .hardware import HardwareParams
from .state import State
from .task_inputs import get_task_input_buffer, register_inputs
from .transform import LayoutRewriteOption, Rearranged, apply_state
from .workload import make_workload_key, register_workload_tensors


@dataclass
class TuningOptions:
    """How long and how to search.

    num_measure_trials: measurements in all; 0: no measurement, the model alone chooses.
    early_stopping: end after so many measurements without a better one. num_measures_per_round:
    measurements between two trainings of the model. verbose: 0 silent, 1 progress on
    standard error, 2 each failure, too. builder, runner: "local" or a LocalBuilder / LocalRunner.
    measure_callbacks: called after each measurement. Raises TilewrightError where a number is not
    whole or too small.
    """

    num_measure_trials: int = 0
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    builder: Any = "local"
    runner: Any = "local"
    measure_callbacks: Sequence[Any] | None = ()

    def __post_init__(self) -> None:
        self.measure_callbacks = tuple(self.measure_callbacks or ())
        for name in ("num_measure_trials", "num_measures_per_round"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise TilewrightError(f"TuningOptions: {name} is a whole number, got {value!r}")
        if self.num_measures_per_round < 1:
            raise TilewrightError("TuningOptions: num_measures_per_round is at least 1")
        stop = self.early_stopping
        if isinstance(stop, int) and stop < 0:  # TVM's way to say none
            stop = self.early_stopping = None
        if stop is not None and (isinstance(stop, bool) or not isinstance(stop, int) or stop < 1):
            raise TilewrightError(
                "TuningOptions: early_stopping is None or a number of measurements of at least 1, "
                f"got {stop!r}"
            )


@dataclass(eq=False)
class SearchTask:
    """A computation for a target, to be searched for its best schedule.

    Given by `func` and `args` (see `register_workload`), by `compute_dag`, or by `workload_key`.
    `layout_rewrite_option`: for inputs whose layout is free; by the target where None.
    `task_inputs`: arrays for inputs that may not be at random while candidates are measured, by
    their names (`task_inputs.py`); `task_inputs_overwrite`: in the place of those of an earlier
    task of this workload; `task_inputs_save_to_file`: also write them to files here. Raises
    UsageError where neither func, compute_dag nor workload_key is given, and TilewrightError where
    args are no tuple, or layout_rewrite_option is none, and TargetError where no target is given or
    in scope.
    """

    func: Callable[..., Any] | str | None = None
    args: Sequence[Any] | None = None
    compute_dag: Any = None
    workload_key: Any = None
    target: Any = None
    target_host: Any = None
    hardware_params: HardwareParams | None = None
    layout_rewrite_option: int | None = None
    task_inputs: Mapping[str, Any] | Sequence[str] | None = None
    task_inputs_overwrite: bool = False
    task_inputs_save_to_file: bool = False
    desc: str = ""
    task_input_names: Sequence[str] = field(default_factory=tuple, init=False)

    def __post_init__(self) -> None:
        if self.func is None and self.compute_dag is None and self.workload_key is None:
            raise UsageError(
                "SearchTask needs a workload: func= with args=, compute_dag= or workload_key="
            )
        if self.workload_key is None and self.func is not None:
            if not isinstance(self.args, (Sequence, type(None))):
                raise TilewrightError(
                    f"args are the arguments of func, as a tuple; one argument is ({self.args},)"
                )
            self.workload_key = make_workload_key(self.func, list(self.args or ()))
        if self.compute_dag is None:
            self.compute_dag = ComputeDAG(self.workload_key)
        elif not isinstance(self.compute_dag, ComputeDAG):
            self.compute_dag = ComputeDAG(self.compute_dag)
        if self.workload_key is None:
            self.workload_key = self.compute_dag.workload_key()
        if self.target is None:
            self.target = Target.current(allow_none=True)
        if self.target is None:
            raise TargetError(
                'SearchTask needs a target: target="llvm" for this CPU, or inside `with Target(..)`'
            )
        self.target = Target(self.target, self.target_host)
        self.target_host = self.target.host
        if self.hardware_params is None:
            self.hardware_params = HardwareParams.of(self.target)
        if self.layout_rewrite_option is None:
            self.layout_rewrite_option = LayoutRewriteOption.get_target_default(self.target)
        if self.layout_rewrite_option not in list(LayoutRewriteOption):
            raise TilewrightError(
                f"layout_rewrite_option is one of {', '.join(map(repr, LayoutRewriteOption))}, got "
                f"{self.layout_rewrite_option!r}"
            )
        self.layout_rewrite_option = LayoutRewriteOption(self.layout_rewrite_option)
        self.task_input_names = register_inputs(
            self, self.task_inputs, self.task_inputs_overwrite, self.task_inputs_save_to_file
        )
        self.task_inputs = None  # the table has them

    def __getstate__(self) -> dict[str, Any]:
        """As data: without the function, which the key names; with the data of its inputs."""
        names = self.task_input_names
        inputs = {n: get_task_input_buffer(self.workload_key, n).numpy() for n in names}
        return {**vars(self), "func": None, "task_inputs": inputs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        register_inputs(self, self.task_inputs, False, False)
        self.task_inputs = None
        register_workload_tensors(self.workload_key, self.compute_dag.tensors)

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: Any = None,
        adaptive_training: bool = False,
        **more: Any,
    ) -> None:
        """Search: measures `num_measure_trials` candidates and records them by the callbacks.

        `search_policy`: a policy, "sketch.xgb" (None: this) or "sketch.random".
        `adaptive_training`: see XGBModel; of policies that are made here. Raises TilewrightError
        where tuning_options are no TuningOptions, or no candidate could be built and run, where
        search_policy is unknown.
        """
        from .search import tune  # networks are compiled from tasks without any search

        tune(self, tuning_options, search_policy, adaptive_training=adaptive_training, **more)

    def apply_best(
        self,
        log_file: Any,
        include_compatible: bool = False,
        layout_rewrite_option: int | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """Schedule and arguments of the best record in `log_file`; TilewrightError without one."""
        state = self.best_state(log_file, include_compatible)
        option = (
            self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
        )
        sch, args, _ = apply_state(state, int(option or 0))
        return sch, args

    def rearranged(self, state: State) -> list[Rearranged]:
        """How arguments have to be laid out for the schedule of a state, under the task's
        option. Raises TilewrightError where the state is a sketch, some lengths of which are
        open."""
        return apply_state(state, int(self.layout_rewrite_option or 0))[2]

    def best_state(self, log_file: Any, include_compatible: bool = False) -> State:
        """The best recorded state of this task; TilewrightError where the file has none."""
        from .records import load_best_record

        found, _ = load_best_record(log_file, self.workload_key, self.target, include_compatible)
        if found is None:
            raise TilewrightError(
                f"{shown(str(log_file))} has no record of this workload for {self.target}: tune it "
                "first, or look what is in the file with `tilewright records show`"
            )
        rows = found.rows if hasattr(found, "rows") else found.state.rows
        return State.from_rows(self.compute_dag, rows)

    def print_best(
        self, log_file: Any, print_mode: str = "schedule", include_compatible: bool = False
    ) -> str:
        """The best record as Python code ("schedule") or as kernel source ("cuda", "opencl",
        ...). Raises TilewrightError where print_mode is none that the target's functions have,
        where the file has no record of the workload."""
        sch, args = self.apply_best(log_file, include_compatible)
        if print_mode == "schedule":
            return sch.as_python()
        from ..driver.build_module import build

        module = build(sch, args, self.target)
        devices = module.imported_modules
        if not devices:
            if print_mode in ("asm", "ll", "llvm"):
                return str(module.get_source("ll" if print_mode == "llvm" else print_mode))
            raise TilewrightError(
                f'print_best: a function for {self.target.kind.name} has no "{print_mode}" source; '
                'it has "schedule", "ll" and "asm"'
            )
        return str(devices[0].get_source())

    def __repr__(self) -> str:
        return f"SearchTask({self.desc or self.workload_key}, {self.target})"


def create_task(func: Any, args: Any, target: Any, **more: Any) -> SearchTask:
    """A SearchTask of a workload function and its arguments."""
    return SearchTask(func=func, args=args, target=target, **more)
