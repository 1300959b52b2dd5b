"""`autotvm.testing`: programs of TVM's own."""
