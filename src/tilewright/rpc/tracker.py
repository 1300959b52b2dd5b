"""`tvm.rpc.tracker`: a fleet's scheduler as a process."""

from ..fleet.rpc_server import Tracker as Tracker
