"""Knobs and spaces: `autotvm.task.space`."""

from ...template.annotate import AnnotateEntity as AnnotateEntity
from ...template.annotate import AnnotateSpace as AnnotateSpace
from ...template.knob import OtherOptionEntity as OtherOptionEntity
from ...template.knob import OtherOptionSpace as OtherOptionSpace
from ...template.reorder import ReorderEntity as ReorderEntity
from ...template.reorder import ReorderSpace as ReorderSpace
from ...template.space import ConfigEntity as ConfigEntity
from ...template.space import ConfigSpace as ConfigSpace
from ...template.space import FallbackConfigEntity as FallbackConfigEntity
from ...template.space import InstantiationError as InstantiationError
from ...template.split import SplitEntity as SplitEntity
from ...template.split import SplitSpace as SplitSpace
from ...template.split import get_factors as get_factors
from ...template.split import get_pow2s as get_pow2s
from ...template.transform import Axis as Axis
from ...template.transform import TransformSpace as TransformSpace
from ...template.transform import VirtualAxis as VirtualAxis
