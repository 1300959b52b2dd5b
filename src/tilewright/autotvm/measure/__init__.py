"""Building and timing of candidates: `autotvm.measure`."""

from ...measure.result import MeasureErrorNo as MeasureErrorNo
from ...template.measure import LocalBuilder as LocalBuilder
from ...template.measure import LocalRunner as LocalRunner
from ...template.measure import create_measure_batch as create_measure_batch
from ...template.measure import measure_option as measure_option
from ...template.record import MeasureInput as MeasureInput
from ...template.record import MeasureResult as MeasureResult
from . import measure as measure
