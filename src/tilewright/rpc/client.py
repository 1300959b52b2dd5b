"""`tvm.rpc.client`: sessions with devices."""

from ..fleet.session import LocalSession as LocalSession
from ..fleet.session import RPCSession as RPCSession
from ..fleet.tracker import TrackerSession as TrackerSession
from ..fleet.tracker import connect as connect
from ..fleet.tracker import connect_tracker as connect_tracker
