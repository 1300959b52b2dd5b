"""Operations of images: resizing, sampling at places that the data says."""

from .grid_sample import affine_grid as affine_grid
from .grid_sample import grid_places as grid_places
from .grid_sample import grid_sample as grid_sample
from .grid_sample import grid_weights as grid_weights
from .resize import resample as resample
from .roi import roi_align as roi_align
from .roi import roi_pool_columns as roi_pool_columns
from .roi import roi_pool_rows as roi_pool_rows
