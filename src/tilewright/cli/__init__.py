"""The command line: `tilewright run`, `tilewright doctor`."""
