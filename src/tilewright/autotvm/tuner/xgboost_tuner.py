"""XGBTuner: `autotvm.tuner.xgboost_tuner`."""

from ...template.model_based import XGBTuner as XGBTuner
