"""Bases of what a search by a model is made of: the model, and what finds its maximums."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any


class CostModel:
    """Predicts how fast configurations are, which it knows by their numbers."""

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Learn afresh from numbers of configurations and their speeds (operations a second, 0 for
        failures). `plan_size`: how many are measured next."""
        raise NotImplementedError(f"{type(self).__name__} has to define fit")

    def fit_log(self, records: Iterable[Any], plan_size: int, min_seed_records: int = 500) -> bool:
        """Learn from (MeasureInput, MeasureResult) pairs; False where fewer than `min_seed_records`
        are of use. `plan_size`: configurations that are chosen at a time."""
        raise NotImplementedError(f"{type(self).__name__} has to define fit_log")

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> Any:
        """Scores that grow with speed, one for each number. `output_margin`: those that another
        model adds its own to."""
        raise NotImplementedError(f"{type(self).__name__} has to define predict")

    def load_basemodel(self, base_model: Any) -> None:
        """Begin with what another model has learned."""
        raise NotImplementedError(f"{type(self).__name__} has to define load_basemodel")

    def spawn_base_model(self) -> Any:
        """A new model of the same kind, to learn from records."""
        raise NotImplementedError(f"{type(self).__name__} has to define spawn_base_model")


class ModelOptimizer:
    """Finds the configurations of which a model promises most."""

    def find_maximums(self, model: CostModel, num: int, exclusive: Collection[int]) -> list[int]:
        """Numbers of the `num` best configurations, the best first, none of them in
        `exclusive`."""
        raise NotImplementedError(f"{type(self).__name__} has to define find_maximums")
