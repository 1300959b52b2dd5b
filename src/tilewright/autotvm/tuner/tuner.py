"""Tuner: `autotvm.tuner.tuner`."""

from ...template.tuner import Tuner as Tuner
