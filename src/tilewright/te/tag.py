"""te.tag: tags on operations, for schedule generators."""

from ..tensor.axes import tag_scope as TagScope
from ..tensor.axes import tag_scope as tag_scope

__all__ = ["TagScope", "tag_scope"]
