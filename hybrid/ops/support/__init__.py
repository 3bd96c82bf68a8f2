"""What declarations of ops share: checks, dtypes, derivatives, batching, samples."""
