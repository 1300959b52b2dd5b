"""`auto_scheduler.measure_record`: files of records."""

from .records import RecordReader as RecordReader
from .records import RecordToFile as RecordToFile
from .records import distill_record_file as distill_record_file
from .records import dump_record_to_string as dump_record_to_string
from .records import load_best_record as load_best_record
from .records import load_record_from_string as load_record_from_string
from .records import load_records as load_records
from .records import save_records as save_records
