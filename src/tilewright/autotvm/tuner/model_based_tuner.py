"""Searches by models: `autotvm.tuner.model_based_tuner`."""

from ...template.model import CostModel as CostModel
from ...template.model import ModelOptimizer as ModelOptimizer
from ...template.model_based import ModelBasedTuner as ModelBasedTuner
