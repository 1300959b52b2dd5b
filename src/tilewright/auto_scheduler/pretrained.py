"""The cost model that ships with the package, trained by benchmarks/train_model.py."""

from __future__ import annotations

from pathlib import Path

from .cost_model import XGBModel

SHIPPED = Path(__file__).with_name("data") / "cost_model.ubj.gz"


def default_model(seed: int = 0, gpu: bool = False) -> XGBModel:
    """A model to begin a search with: the shipped trees, where the package has them. They know
    programs for CPUs only; for GPUs the model begins with nothing."""
    file = SHIPPED if SHIPPED.exists() and not gpu else None
    return XGBModel(num_warmup_sample=1, seed=seed, model_file=file, verbose_warmup=0)
