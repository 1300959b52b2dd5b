"""Building and timing of candidates in processes of their own, and what is kept of it on disk."""
