# Made by `python -m tools.make_stubs`.

from tilewright.topi.image.filters import affine_grid as affine_grid
from tilewright.topi.image.filters import dilation2d_nchw as dilation2d_nchw
from tilewright.topi.image.filters import dilation2d_nhwc as dilation2d_nhwc
from tilewright.topi.image.filters import grid_sample as grid_sample
from tilewright.topi.image.sizes import crop_and_resize as crop_and_resize
from tilewright.topi.image.sizes import resize1d as resize1d
from tilewright.topi.image.sizes import resize2d as resize2d
from tilewright.topi.image.sizes import resize3d as resize3d
