"""`tvm.topi.vision.rcnn`: detectors that look at regions."""

from .proposals import proposal as proposal
from .regions import roi_align_nchw as roi_align_nchw
from .regions import roi_align_nhwc as roi_align_nhwc
from .regions import roi_pool_nchw as roi_pool_nchw

__all__ = ["proposal", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw"]
