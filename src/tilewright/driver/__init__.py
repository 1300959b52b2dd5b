"""The one place where the pieces meet: build, and what it needs."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "driver.build_module": "build schedule_to_module",
    },
    modules="build_module",
)
