"""Boards under the vocabulary of TVM's scripts: `tilewright.rpc`; docs/fleet.md says how."""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "fleet.session": "LocalSession RPCSession",
        "fleet.tracker": "TrackerSession connect connect_tracker",
        "fleet.rpc_server": "Server",
    },
    modules="base client server tracker",
)
