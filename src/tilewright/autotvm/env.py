"""State of a search: `autotvm.env`."""

from ..template.env import GLOBAL_SCOPE as GLOBAL_SCOPE
from ..template.env import AutotvmGlobalScope as AutotvmGlobalScope
from ..template.env import reset_global_scope as reset_global_scope
