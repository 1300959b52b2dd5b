"""The cost model that ships with the package, trained by benchmarks/train_model.py."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..base.trainer import INSTALL, can_train
from .cost_model import CostModel, RandomModel, XGBModel

SHIPPED = Path(__file__).with_name("data") / "cost_model.ubj.gz"


def default_model(seed: int = 0, gpu: bool = False) -> CostModel:
    """A model to begin a search with: the shipped trees, where the package has them. They know
    programs for CPUs only; for GPUs the model begins with nothing, and without xgboost, which it
    learns with, is left to chance: a warning says so."""
    file = SHIPPED if SHIPPED.exists() and not gpu else None
    if file is None and not can_train():
        text = "xgboost is not installed: candidates are ranked at random, measurements aside"
        warnings.warn(f"{text}: {INSTALL}", stacklevel=2)
        return RandomModel(seed)
    return XGBModel(0, num_warmup_sample=1, seed=seed, begin_with=file)
