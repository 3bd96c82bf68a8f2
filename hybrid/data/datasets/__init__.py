"""Datasets: samples in memory, in files of arrays, tables and images, and text as tokens."""
