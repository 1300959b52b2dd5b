"""Building and timing of candidates: `autotvm.measure`."""

from ...measure.result import MeasureErrorNo as MeasureErrorNo
from ...template.fleet import RPCRunner as RPCRunner
from ...template.measure import Builder as Builder
from ...template.measure import BuildResult as BuildResult
from ...template.measure import LocalBuilder as LocalBuilder
from ...template.measure import LocalRunner as LocalRunner
from ...template.measure import Runner as Runner
from ...template.measure import create_measure_batch as create_measure_batch
from ...template.measure import measure_option as measure_option
from ...template.record import MeasureInput as MeasureInput
from ...template.record import MeasureResult as MeasureResult
from . import executor as executor
from . import measure as measure
from . import measure_methods as measure_methods
from .measure_methods import default_module_loader as default_module_loader
from .measure_methods import request_remote as request_remote
