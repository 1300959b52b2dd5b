"""What may happen after each measurement of a search: `autotvm.tuner.callback`."""

from ...template.callback import Monitor as Monitor
from ...template.callback import log_to_database as log_to_database
from ...template.callback import log_to_file as log_to_file
from ...template.callback import progress_bar as progress_bar
