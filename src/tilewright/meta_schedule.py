"""`tvm.meta_schedule`: not part of this project; importing it says what to use instead."""

raise ImportError(
    "meta_schedule searches TensorIR's schedules, which are not part of tilewright: use "
    "auto_scheduler, or autotvm with a template"
)
