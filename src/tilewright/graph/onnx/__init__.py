"""Import of ONNX models: `load_onnx` in load.py, one file of converters per family of operators."""
