"""`tilewright`: the commands. Each stands in a file of its own; this one says what they take.

A command's file, and the compiler that it uses, loads when the command is called: help, versions
and mistakes in options come at once.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from .. import __version__
from ..auto_scheduler.objectives import OBJECTIVES
from .choices import FORMATS, LIBRARY_THREADS, PEER_NAMES, STAGES, SYNONYMS
from .fleet import device, fleet
from .group import Group
from .places import Records

_model = click.argument("model", type=click.Path(exists=True, dir_okay=False))
_target = click.option(
    "--target", default="llvm", show_default=True, help="What to compile, or to tune, for."
)
_dtype = click.option(
    "--precision",
    "--dtype",
    "dtype",
    type=click.Choice(["float32", "float16", "bfloat16"]),
    default="float32",
    show_default=True,
    help="Precision of weights, and of what flows between kernels where the target multiplies it.",
)
_shapes = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=1,3,224,224",
    help="Shape of an input whose dimensions the model leaves open.",
)
_records = click.option(
    "--records",
    type=Records(),
    metavar="FILE|URL",
    help="Compile with the fastest schedules that `tilewright tune` found.",
)
_threads = click.option("--threads", type=int, help="Threads to use (default: all cores).")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
_files = click.argument("files", nargs=-1, required=True, metavar="FILE...", type=Records())
_output = click.option("-o", "--output", required=True, metavar="FILE", help="The file to write.")
_workload = click.option("--workload", default="", metavar="TEXT",
                         help="Only workloads whose key contains TEXT.")  # fmt: skip


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tilewright")
def main() -> None:
    """A tensor compiler: fast code for operators that you describe, and for whole networks.

    \b
    First steps:
      tilewright doctor              what works on this machine
      tilewright run model.onnx      run a network, see how fast it is
      tilewright tune model.onnx --trials 500 --records best.db
                                     search for faster kernels
      tilewright run model.onnx --records best.db
                                     use what was found

    Every command explains itself: tilewright COMMAND --help. Programs that were written for TVM
    begin with: tilewright migrate FOLDER.
    """


@main.command()
@_model
@_target
@_dtype
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="Data of one input; seeded random data without it. May be given several times.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="NAME=FILE.npy",
    help="Where to save one output. May be given several times.",
)
@_shapes
@_records
@click.option(
    "--check",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Compare the first output with this .npy or ONNX TensorProto .pb file.",
)
@click.option(
    "--compare",
    type=click.Choice(PEER_NAMES),
    help="Run the model in another runtime too: all outputs and latencies side by side.",
)
@click.option(
    "--rtol",
    default=1e-3,
    show_default=True,
    help="Tolerance of --check and --compare, relative to the largest value.",
)
@click.option("--repeat", default=20, show_default=True, help="Timed runs.")
@click.option("--warm-up", default=3, show_default=True, help="Runs before them.")
@click.option("--duration", type=float, metavar="SECONDS", help="Timed runs for so long instead.")
@click.option(
    "--streams", default=1, show_default=True, help="Callers at once, on the same weights."
)
@_threads
@click.option(
    "--profile",
    is_flag=True,
    help="Show each kernel's time, rate and bytes, and which limit of the machine binds it.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False),
    metavar="FILE.json",
    help="Write a timeline of the kernels of some runs, for ui.perfetto.dev or chrome://tracing.",
)
@_json
def run(**options: Any) -> None:
    """Compile an ONNX MODEL (or load a saved network), run it, report outputs and latency.

    Exits with 1 if --check or --compare finds a difference.
    """
    from . import run as command

    sys.exit(command.run(command.Options(**options)))


@main.command("compile")
@_model
@_target
@_dtype
@_shapes
@_records
@_output
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="network: for tilewright.load_network and `tilewright run`. so: a shared object for "
    "programs in C, with its header beside it. o: the same as a relocatable object.  [default: by "
    "the end of FILE's name, .so, .o or any other]",
)
@click.option("--name", default="", help="Of so and o: what names of functions begin with.")
@click.option(
    "--threads",
    type=click.Choice(LIBRARY_THREADS),
    help="Of so and o: who runs parallel loops: threads of the library, the caller's through a "
    f"function that it sets, none.  [default: {LIBRARY_THREADS[0]}]",
)
@_json
def compile_model(**options: Any) -> None:
    """Compile an ONNX MODEL to a file that runs without it, or without Python."""
    from . import compile as command

    command.compile_to_file(command.Options(**options))


@main.command()
@click.argument("what", metavar="MODEL.onnx|OP.py:FUNC")
@click.argument("args", nargs=-1, metavar="[MODEL.onnx|NUMBER]...")
@_target
@click.option("--trials", type=int, required=True, help="Measurements in all.")
@click.option("--records", required=True, metavar="FILE|URL", help="Where measurements are kept.")
@_dtype
@_shapes
@_threads
@click.option(
    "--objective",
    type=click.Choice(OBJECTIVES),
    default="sum",
    show_default=True,
    help="What to make small. sum: of the networks' latencies. requirement: the same, where "
    "nothing is gained below --requirement. geomean: minus the geometric mean of speed-ups over "
    "--reference. early-stopping: the sum, where a task that gets no better is done.",
)
@click.option(
    "--requirement",
    "requirements",
    multiple=True,
    metavar="[MODEL.onnx=]SECONDS",
    help="Of --objective requirement: the latency in seconds (0.005 is 5 ms) that a network has to "
    "reach, of every network where none is named. The search ends once all are met.",
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="[MODEL.onnx=]SECONDS",
    help="Of --objective geomean: the latency in seconds to compare a network with.",
)
@click.option(
    "--stop-after",
    type=int,
    metavar="N",
    help="Of --objective early-stopping: a task is done after N measurements without a faster "
    "program.",
)
@click.option("--seed", default=0, show_default=True, help="Of all choices of the search.")
@click.option(
    "--fleet",
    metavar="ADDRESS|local:N",
    help="Build and measure on a fleet (tilewright fleet --help); local:N is one of N processes of "
    "this machine.",
)
@click.option("--device-key", default="", metavar="KEY", help="Which of the fleet's devices.")
@click.option(
    "--priority",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="This search's share of the fleet.",
)
@click.option("--quiet", is_flag=True, help="Show no progress.")
@_json
def tune(**options: Any) -> None:
    """Search for fast schedules, and keep every measurement in a FILE or database.

    Of one network or several, all kernels are tuned together, more often those that promise more;
    what networks share is measured once. A network's latency is the sum of its tuned kernels.
    `tilewright run MODEL.onnx --records FILE` uses what was found. Of a Python file, FUNC is called
    with the numbers (or lists of numbers, as 1,1) and gives the tensors of one operator.
    Measurements that are there already count as trials: a search that was stopped goes on with the
    same command, and several at once share what they measure.

    Exits with 1 if no candidate of a task could be measured.
    """
    from . import tune as command

    sys.exit(command.tune(command.Options(**options)))


@main.command()
@click.argument("what", nargs=-1, metavar="[MODEL.onnx|OPERATOR]...")
@click.option(
    "--with",
    "peers",
    multiple=True,
    type=click.Choice(PEER_NAMES),
    help="Which other runtime; all that are installed without it. May be given several times.",
)
@click.option(
    "--seconds", default=0.3, show_default=True, help="To measure each in each row, in turns."
)
@_shapes
@_records
@_threads
@click.option("--list", "as_list", is_flag=True, help="Print the names of operators.")
@_json
def bench(**options: Any) -> None:
    """Time networks and operators beside other runtimes, in one table.

    Without arguments, a set of operators at the sizes of usual networks (--list). All run in
    float32 on the CPU, on the same data and as many threads; a time is the least of many turns, and
    "faster" that of the fastest other runtime over ours.

    Exits with 1 if outputs differ, or something does not compile.
    """
    from . import bench as command

    sys.exit(command.bench(command.Options(**options)))


@main.command()
@click.argument("what", type=click.Path())
@click.argument("args", nargs=-1, metavar="[ARGS]...")
@click.option(
    "--stage",
    type=click.Choice((*STAGES, *SYNONYMS)),
    help="One stage only: of a network its graph or groups of nodes; loops as scheduled, after all "
    "passes, source, or machine code (asm, of CUDA also sass).",
)
@_target
@_dtype
@_shapes
@_records
@click.option("--function", metavar="NAME", help="One function only.")
@click.option("--arch", default="sm_80", show_default=True, help="For CUDA code that names none.")
@_json
def inspect(**options: Any) -> None:
    """Show the code that WHAT makes, stage by stage.

    WHAT is an ONNX model, a Python program, which is run and whose builds are shown, or a file that
    `export_library` wrote. ARGS are the program's own, with -- before those that begin with a dash.
    --target, --precision, --shape and --records are of models. CUDA kernels come with their
    registers, shared memory, spills, occupancy, wide accesses and commonest instructions where
    NVRTC or nvcc is installed, those of models with the least time that they could take on a GPU
    of their architecture (a roofline by its data sheet).
    """
    from . import inspect as command

    sys.exit(command.inspect(command.Options(**options)))


@main.command()
@click.argument("what", metavar="MODEL.onnx|PROGRAM.py|RECORDS")
@click.argument("args", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option("-o", "--output", default="report.html", show_default=True, metavar="FILE.html",
              help="The page to write.")  # fmt: skip
@click.option("--target", help="What to compile a network for.  [default: llvm]")
@click.option(
    "--precision",
    "--dtype",
    "dtype",
    type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Precision of a network's weights.  [default: float32]",
)
@_shapes
@_records
@_threads
@_json
def report(**options: Any) -> None:
    """Draw what the compiler did: one HTML page that needs no network.

    Of an ONNX model: where its time goes, its graph, its memory plan, its kernels. Of a Python
    program, which is run with the arguments: all that it builds. Of a file of records: what the
    search tried. Kernels are shown with their loops, the loops after each pass, and code beside
    loops, line by line.
    """
    from . import report as command

    command.report(command.Options(**options))


@main.command()
@_json
def doctor(as_json: bool) -> None:
    """Say what works on this machine: versions, CPU, threads, targets."""
    from . import doctor as command

    command.doctor(as_json)


@main.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@_json
def migrate(**options: Any) -> None:
    """Say what in a code base written for TVM works here, differs or is absent.

    Reads the Python files and notebooks at PATH (folders: all below); nothing is run. What is
    absent comes first, each name with the reason, what to use instead, and every place; methods
    are found where an object's class is evident, as in s = te.create_schedule(...).

    Exits with 1 if something absent is used or a file cannot be read, else with 0.
    """
    from . import migrate as command

    sys.exit(command.migrate(**options))


@main.group(cls=Group)
def records() -> None:
    """Look into files of measurements, and make others of them.

    A FILE is SQLite, or lines of JSON (in the form of TVM's logs) where its name ends in .json; a
    database's URL, as postgresql://HOST/NAME, may stand in its place.
    """


@records.command()
@_files
@_workload
@_json
def show(**options: Any) -> None:
    """Sum up each task: measurements, failures, the best."""
    from . import records as command

    command.show(**options)


@records.command()
@_files
@_workload
@_json
def best(**options: Any) -> None:
    """Show the fastest measurement of each task, with its steps."""
    from . import records as command

    command.best(**options)


@records.command()
@_files
@click.option("-o", "--output", default="-", metavar="FILE.json", help="Default: standard output.")
def export(**options: Any) -> None:
    """Write the measurements as lines of JSON."""
    from . import records as command

    command.export(**options)


@records.command("import")
@_files
@_output
def import_lines(**options: Any) -> None:
    """Add measurements to a store (a file or a URL), those that it does not have yet."""
    from . import records as command

    command.import_lines(**options)


@records.command()
@_files
@_output
def merge(**options: Any) -> None:
    """Write the measurements of several files to a new one, in the order of time."""
    from . import records as command

    command.merge(**options)


@records.command()
@_files
@_output
def distill(**options: Any) -> None:
    """Write the fastest measurement of each task to a new file."""
    from . import records as command

    command.distill(**options)


main.add_command(fleet)
main.add_command(device)
main.headings = [
    ("Networks", ["run", "compile", "tune", "bench"]),
    ("Looking inside", ["inspect", "report", "records", "doctor"]),
    ("Many machines", ["fleet", "device"]),
    ("Coming from TVM", ["migrate"]),
]

if __name__ == "__main__":
    main()
