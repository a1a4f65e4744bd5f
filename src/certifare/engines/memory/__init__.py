"""Tables in memory, and files that pass through it a batch at a time."""
