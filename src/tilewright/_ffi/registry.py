"""`tvm._ffi.registry`: functions by name, classes of users' objects."""

from collections.abc import Callable as _Callable
from typing import Any as _Any
from typing import NoReturn as _NoReturn

from . import get_global_func as get_global_func
from . import list_global_func_names as list_global_func_names
from . import register_func as register_func
from . import remove_global_func as remove_global_func


def register_object(type_key: _Any = None) -> _Any:
    """A decorator, bare or with a name: a class of objects. Objects are Python's here, so that the
    class stays as it is."""
    if isinstance(type_key, type):
        return type_key

    def keep(cls: type) -> type:
        return cls

    return keep


def register_extension(cls: type, fcreate: _Callable[..., _Any] | None = None) -> type:
    """A class whose objects functions take: those registered take any object, so that the class
    stays as it is."""
    del fcreate
    return cls


def _init_api(namespace: str, target_module_name: str | None = None) -> _NoReturn:
    """UsageError: there are no functions of a C++ runtime to give names to."""
    from ..base.errors import UsageError

    raise UsageError(f"_init_api({namespace!r}): there is no C++ runtime; use get_global_func")
