"""`tvm.ir.base`: what all nodes have."""

from ..driver.saved import load_json as load_json
from ..driver.saved import save_json as save_json
from ..loopir.attrs import SourceName as SourceName
from ..loopir.attrs import Span as Span
from ..loopir.equal import assert_structural_equal as assert_structural_equal
from ..loopir.equal import structural_equal as structural_equal
from ..loopir.expr import Node as Node
from ..loopir.hash import structural_hash as structural_hash
from ..loopir.object_path import get_first_structural_mismatch as get_first_structural_mismatch
from .env_func import EnvFunc as EnvFunc
