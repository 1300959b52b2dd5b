"""Passes over networks: each changes a graph in place and returns it."""
