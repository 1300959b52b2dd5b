"""Records of measurements: `autotvm.record`."""

from ..template.record import MeasureInput as MeasureInput
from ..template.record import MeasureResult as MeasureResult
from ..template.record import decode as decode
from ..template.record import encode as encode
from ..template.record import load_from_file as load_from_file
from ..template.record import pick_best as pick_best
