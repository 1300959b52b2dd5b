# Made by `python -m tools.make_stubs`.

from tilewright.report.network import network_page as network_page
from tilewright.report.page import Page as Page
from tilewright.report.program import program_page as program_page
from tilewright.report.schedule import schedule_page as schedule_page
from tilewright.report.search import records_page as records_page
from tilewright.report.widgets import page_of as page_of
