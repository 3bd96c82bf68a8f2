"""Datasets, and loaders that make batches of them."""

from hybrid.data.collate import default_collate as default_collate
from hybrid.data.collate import default_convert as default_convert
from hybrid.data.dataset import ChainDataset as ChainDataset
from hybrid.data.dataset import ConcatDataset as ConcatDataset
from hybrid.data.dataset import Dataset as Dataset
from hybrid.data.dataset import IterableDataset as IterableDataset
from hybrid.data.dataset import StackDataset as StackDataset
from hybrid.data.dataset import Subset as Subset
from hybrid.data.dataset import TensorDataset as TensorDataset
from hybrid.data.loader import DataLoader as DataLoader
from hybrid.data.sampler import BatchSampler as BatchSampler
from hybrid.data.sampler import RandomSampler as RandomSampler
from hybrid.data.sampler import Sampler as Sampler
from hybrid.data.sampler import SequentialSampler as SequentialSampler
from hybrid.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from hybrid.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from hybrid.data.split import random_split as random_split
from hybrid.data.worker import WorkerInfo as WorkerInfo
from hybrid.data.worker import get_worker_info as get_worker_info
