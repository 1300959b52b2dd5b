"""`tvm.runtime.params`: parameters as bytes."""

from ..rt.values import load_param_dict as load_param_dict
from ..rt.values import load_param_dict_from_file as load_param_dict_from_file
from ..rt.values import save_param_dict as save_param_dict
from ..rt.values import save_param_dict_to_file as save_param_dict_to_file
