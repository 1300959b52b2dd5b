"""XGBoostCostModel: `autotvm.tuner.xgboost_cost_model`."""

from ...template.xgboost_model import XGBoostCostModel as XGBoostCostModel
