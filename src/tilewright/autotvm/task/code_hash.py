"""Marks of the code that a record was made with: `autotvm.task.code_hash`."""

from ...template.code_hash import attach_code_hash as attach_code_hash
from ...template.code_hash import attach_code_hash_to_arg as attach_code_hash_to_arg
