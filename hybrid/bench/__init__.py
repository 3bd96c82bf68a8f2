"""Workloads that measure hybrid on this machine, and check their results while they do."""
