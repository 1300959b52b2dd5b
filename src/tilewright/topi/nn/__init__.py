"""Operations of neural networks: convolution, pooling, dense layers, activations."""

from ..transform import flatten as flatten
from ..transform import pad as pad
from .conv2d import conv2d_nchw as conv2d_nchw
from .conv2d import conv2d_nchwc as conv2d_nchwc
from .conv2d import depthwise_nchwc as depthwise_nchwc
from .conv2d import pack_depthwise as pack_depthwise
from .conv2d import pack_kernel as pack_kernel
from .dense import batch_matmul as batch_matmul
from .dense import dense as dense
from .dense import dense_packed as dense_packed
from .dense import matmul as matmul
from .elemwise import bias_add as bias_add
from .elemwise import leaky_relu as leaky_relu
from .elemwise import relu as relu
from .elemwise import scale_shift as scale_shift
from .pooling import global_pool as global_pool
from .pooling import pool2d as pool2d
from .softmax import log_softmax as log_softmax
from .softmax import softmax as softmax
from .spatial_pack import conv2d_spatial_pack as conv2d_spatial_pack
from .spatial_pack import pack_filters as pack_filters
from .winograd import winograd_input as winograd_input
from .winograd import winograd_kernel as winograd_kernel
from .winograd import winograd_output as winograd_output
from .winograd import winograd_product as winograd_product
