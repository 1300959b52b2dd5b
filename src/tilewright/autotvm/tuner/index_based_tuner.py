"""Searches by number: `autotvm.tuner.index_based_tuner`."""

from ...template.grid import GridSearchTuner as GridSearchTuner
from ...template.grid import IndexTuner as IndexBaseTuner
from ...template.grid import RandomTuner as RandomTuner

__all__ = ["GridSearchTuner", "IndexBaseTuner", "RandomTuner"]
