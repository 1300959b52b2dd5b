"""Feature rows for the cost model: 164 numbers for each statement that stores to a buffer."""

from .annotations import Batch as Batch
from .columns import COUNT as COUNT
from .columns import NAMES as NAMES
from .skeleton import Skeleton as Skeleton
from .skeleton import features as features
from .skeleton import features_of as features_of
