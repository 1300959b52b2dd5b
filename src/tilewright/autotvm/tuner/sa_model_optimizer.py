"""Simulated annealing: `autotvm.tuner.sa_model_optimizer`."""

from ...template.annealing import SimulatedAnnealingOptimizer as SimulatedAnnealingOptimizer
