"""`auto_scheduler.cost_model`: models that rank candidates without running them."""

from .cost_model import CostModel as CostModel
from .cost_model import PythonBasedModel as PythonBasedModel
from .cost_model import RandomModel as RandomModel
from .cost_model import cost_of as cost_of
from .cost_model import has_features as has_features
from .xgb_model import LEAST_WEIGHT as LEAST_WEIGHT
from .xgb_model import XGBModel as XGBModel
