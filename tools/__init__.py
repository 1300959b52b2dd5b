"""Scripts that make data and models for examples, tests and benchmarks; not packaged."""
