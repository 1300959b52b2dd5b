"""`tvm.contrib.debugger`: networks with the time of each kernel."""
