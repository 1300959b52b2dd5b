"""`tvm.dlight`: not part of this project; importing it says what to use instead."""

raise ImportError(
    "dlight schedules TensorIR's blocks, which are not part of tilewright: use "
    "te.create_schedule, topi's schedules, or auto_scheduler"
)
