"""tilewright"""
