"""Default schedules: good code without any search, for each family of operations."""

from .default import default_schedule as default_schedule
from .injective import schedule_injective as schedule_injective
