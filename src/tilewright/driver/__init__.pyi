# Made by `python -m tools.make_stubs`.

from tilewright.driver.build_module import build as build
from tilewright.driver.build_module import schedule_to_module as schedule_to_module
from tilewright.driver import build_module as build_module
