"""`tvm.tir.data_layout`: layouts by letters."""

from ..arith.data_layout import BijectiveLayout as BijectiveLayout
from ..arith.data_layout import Layout as Layout
from ..arith.data_layout import bijective_layout as bijective_layout
from ..arith.data_layout import layout as layout
