"""Searches over the configurations of a task: `autotvm.tuner`."""

from ...template.droplet import DropletTuner as DropletTuner
from ...template.genetic import GATuner as GATuner
from ...template.grid import GridSearchTuner as GridSearchTuner
from ...template.grid import RandomTuner as RandomTuner
from ...template.model_based import ModelBasedTuner as ModelBasedTuner
from ...template.model_based import XGBTuner as XGBTuner
from ...template.tuner import Tuner as Tuner
from . import callback as callback
