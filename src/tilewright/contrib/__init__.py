"""Helpers under the names that TVM's users know: `from tilewright.contrib import utils`."""
