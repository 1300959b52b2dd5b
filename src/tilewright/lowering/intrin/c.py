"""Lowering rules for C: the C library, which `default` has, and what C99 lacks of it."""

from __future__ import annotations

from ...loopir.intrin_rules import Rule

C: dict[str, Rule] = {}
"""C99's math.h has all that the default rules ask for."""
