"""Operators of object detection."""

from ...base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.vision.boxes": ("all_class_non_max_suppression get_valid_counts non_max_suppression"),
        "topi.vision.proposals": "proposal",
        "topi.vision.regions": "reorg roi_align_nchw roi_align_nhwc roi_pool_nchw",
    },
    modules="rcnn ssd",
)
