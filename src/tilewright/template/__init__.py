"""Tuning templates: schedules with knobs, and searches for their best values (public name:
autotvm)."""
