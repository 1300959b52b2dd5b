"""DropletTuner: `autotvm.tuner.droplet_tuner`."""

from ...template.droplet import DropletTuner as DropletTuner
