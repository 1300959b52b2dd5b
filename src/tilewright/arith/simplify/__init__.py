"""Rules of the simplifier, one file for each group of operations; `table` joins them."""
