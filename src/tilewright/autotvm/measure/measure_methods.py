"""Builders and runners: `autotvm.measure.measure_methods`."""

from ...fleet.requests import check_remote as check_remote
from ...fleet.requests import request_remote as request_remote
from ...template.fleet import RPCRunner as RPCRunner
from ...template.measure import BuildResult as BuildResult
from ...template.measure import LocalBuilder as LocalBuilder
from ...template.measure import LocalRunner as LocalRunner
from ...template.measure import run_candidate as run_candidate
from ...template.through_session import default_module_loader as default_module_loader
