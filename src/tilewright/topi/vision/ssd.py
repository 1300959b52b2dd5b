"""`tvm.topi.vision.ssd`: single-shot detectors."""

from .multibox import multibox_detection as multibox_detection
from .multibox import multibox_prior as multibox_prior
from .multibox import multibox_transform_loc as multibox_transform_loc

__all__ = ["multibox_detection", "multibox_prior", "multibox_transform_loc"]
