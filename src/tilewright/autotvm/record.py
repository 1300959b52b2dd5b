"""Records of measurements: `autotvm.record`."""

from ..template.context import ApplyHistoryBest as ApplyHistoryBest
from ..template.record import AUTOTVM_LOG_VERSION as AUTOTVM_LOG_VERSION
from ..template.record import MeasureInput as MeasureInput
from ..template.record import MeasureResult as MeasureResult
from ..template.record import decode as decode
from ..template.record import encode as encode
from ..template.record import load_from_file as load_from_file
from ..template.record import measure_str_key as measure_str_key
from ..template.record import pick_best as pick_best
from ..template.record import split_workload as split_workload
