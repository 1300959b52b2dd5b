"""Searches over the configurations of a task: `autotvm.tuner`."""

from ...template.droplet import DropletTuner as DropletTuner
from ...template.genetic import GATuner as GATuner
from ...template.grid import GridSearchTuner as GridSearchTuner
from ...template.grid import RandomTuner as RandomTuner
from ...template.model_based import ModelBasedTuner as ModelBasedTuner
from ...template.model_based import XGBTuner as XGBTuner
from ...template.tuner import Tuner as Tuner
from . import callback as callback
from . import droplet_tuner as droplet_tuner
from . import ga_tuner as ga_tuner
from . import index_based_tuner as index_based_tuner
from . import model_based_tuner as model_based_tuner
from . import sa_model_optimizer as sa_model_optimizer
from . import tuner as tuner
from . import xgboost_cost_model as xgboost_cost_model
from . import xgboost_tuner as xgboost_tuner
