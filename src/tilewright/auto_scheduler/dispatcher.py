"""`auto_scheduler.dispatcher`: which state a workload gets."""

from .history import ApplyHistoryBest as ApplyHistoryBest
from .history import ApplyHistoryBestOrSample as ApplyHistoryBestOrSample
from .history import DispatchContext as DispatchContext
from .history import FallbackContext as FallbackContext
