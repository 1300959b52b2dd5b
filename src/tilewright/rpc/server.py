"""`tvm.rpc.server`: a device as a process."""

from ..fleet.rpc_server import Server as Server
