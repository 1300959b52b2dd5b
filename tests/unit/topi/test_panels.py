"""Which constants lie in panels ahead of time."""

from tilewright import te
from tilewright.target.target import Target
from tilewright.topi import nn
from tilewright.topi.schedules.decisions import Decisions
from tilewright.topi.schedules.machine import Machine
from tilewright.topi.schedules.panels import panels_of


def test_blocked_weights_stay_whatever_tile_a_record_has() -> None:
    """A record's answers for a blocked convolution are of its own rule, not of sums in general."""
    data, kernel = te.placeholder((1, 4, 6, 6, 8)), te.placeholder((4, 4, 1, 1, 8, 8))
    conv = nn.conv_nchwc(data, kernel)
    answers = Decisions({f"{conv.op.name}.tile": (4, 2)})
    machine = Machine.of(Target("llvm -mcpu=haswell"), answers)
    assert panels_of(conv.op, {kernel}, machine) is None
