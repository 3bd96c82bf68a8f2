"""Workers that make batches ahead of time: threads and processes, and the way back from these."""
