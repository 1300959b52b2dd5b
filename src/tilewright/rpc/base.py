"""`tvm.rpc.base`: what tells devices of sessions from this machine's."""

from ..fleet.remote import MASK as RPC_SESS_MASK

__all__ = ["RPC_SESS_MASK"]
