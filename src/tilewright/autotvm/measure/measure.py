"""What a measurement is: `autotvm.measure.measure`."""

from ...measure.result import MeasureErrorNo as MeasureErrorNo
from ...template.measure import measure_option as measure_option
from ...template.record import MeasureInput as MeasureInput
from ...template.record import MeasureResult as MeasureResult
