"""Bytes and the C library: buffers and who may write to them, plans, queues of work, bfloat16."""
