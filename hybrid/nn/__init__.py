"""Layers: modules, the functions and initialisers behind them."""

from hybrid.nn import functional as functional
from hybrid.nn import init as init
from hybrid.nn.activation import GELU as GELU
from hybrid.nn.activation import LogSoftmax as LogSoftmax
from hybrid.nn.activation import ReLU as ReLU
from hybrid.nn.activation import Sigmoid as Sigmoid
from hybrid.nn.activation import SiLU as SiLU
from hybrid.nn.activation import Softmax as Softmax
from hybrid.nn.activation import Tanh as Tanh
from hybrid.nn.basic import Dropout as Dropout
from hybrid.nn.basic import Flatten as Flatten
from hybrid.nn.basic import Identity as Identity
from hybrid.nn.basic import Linear as Linear
from hybrid.nn.container import ModuleDict as ModuleDict
from hybrid.nn.container import ModuleList as ModuleList
from hybrid.nn.container import Sequential as Sequential
from hybrid.nn.loss import CrossEntropyLoss as CrossEntropyLoss
from hybrid.nn.loss import MSELoss as MSELoss
from hybrid.nn.module import Module as Module
from hybrid.nn.overview import summary as summary
from hybrid.nn.parameter import Parameter as Parameter
