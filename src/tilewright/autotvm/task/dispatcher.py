"""Which configuration a template gets: `autotvm.task.dispatcher`."""

from ...template.context import ApplyConfig as ApplyConfig
from ...template.context import ApplyFixedConfig as ApplyFixedConfig
from ...template.context import ApplyGraphBest as ApplyGraphBest
from ...template.context import ApplyHistoryBest as ApplyHistoryBest
from ...template.context import DispatchContext as DispatchContext
from ...template.context import FallbackContext as FallbackContext
from ...template.context import clear_fallback_cache as clear_fallback_cache
