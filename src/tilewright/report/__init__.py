"""Pictures of what the compiler did: pages about networks, programs, schedules and searches.

from tilewright import report
page = report.schedule_page(s, [A, B, C])
html = page.html()  # one file, which needs no network
"""

from ..base.face import face

__getattr__, __dir__ = face(
    __name__,
    {
        "report.page": "Page",
        "report.network": "network_page",
        "report.program": "program_page",
        "report.schedule": "schedule_page",
        "report.search": "records_page",
        "report.widgets": "page_of",
    },
)
