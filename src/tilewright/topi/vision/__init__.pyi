# Made by `python -m tools.make_stubs`.

from tilewright.topi.vision.boxes import all_class_non_max_suppression as all_class_non_max_suppression
from tilewright.topi.vision.boxes import get_valid_counts as get_valid_counts
from tilewright.topi.vision.boxes import non_max_suppression as non_max_suppression
from tilewright.topi.vision.proposals import proposal as proposal
from tilewright.topi.vision.regions import reorg as reorg
from tilewright.topi.vision.regions import roi_align_nchw as roi_align_nchw
from tilewright.topi.vision.regions import roi_align_nhwc as roi_align_nhwc
from tilewright.topi.vision.regions import roi_pool_nchw as roi_pool_nchw
from tilewright.topi.vision import rcnn as rcnn
from tilewright.topi.vision import ssd as ssd
