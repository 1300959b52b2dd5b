"""te.hybrid.module: scripts that schedules are printed as."""

from ...driver.hybrid_module import HybridModule as HybridModule
