"""Operations on images: other sizes, places that the data says."""

from ...base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "topi.image.filters": "affine_grid dilation2d_nchw dilation2d_nhwc grid_sample",
        "topi.image.sizes": "crop_and_resize resize1d resize2d resize3d",
    },
)
