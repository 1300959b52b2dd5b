"""What a measurement is: `autotvm.measure.measure`."""

from ...measure.result import MeasureErrorNo as MeasureErrorNo
from ...template.measure import Builder as Builder
from ...template.measure import Runner as Runner
from ...template.measure import create_measure_batch as create_measure_batch
from ...template.measure import measure_option as measure_option
from ...template.record import MeasureInput as MeasureInput
from ...template.record import MeasureResult as MeasureResult
