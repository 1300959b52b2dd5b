"""Programs of TVM's that scripts for boards start: `python -m tvm.exec.rpc_tracker` and others."""
