"""GATuner: `autotvm.tuner.ga_tuner`."""

from ...template.genetic import GATuner as GATuner
