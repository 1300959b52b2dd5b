"""`auto_scheduler.loop_state`: states, their stages and loops."""

from .stages import Iterator as Iterator
from .stages import StageView as Stage
from .state import State as State
from .state import StateObject as StateObject

__all__ = ["Iterator", "Stage", "State", "StateObject"]
