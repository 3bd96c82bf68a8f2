"""Datasets, and loaders that make batches of them."""

from hybrid.data.dataset import Dataset as Dataset
from hybrid.data.dataset import TensorDataset as TensorDataset
from hybrid.data.loader import DataLoader as DataLoader
