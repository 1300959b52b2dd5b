"""Schedules: one list of primitives, the trace, over the stages of a computation."""
