"""What stands for each op of ONNX: one family a file; importing them fills the table of nodes."""

from hybrid.onnx.handlers import activation_nodes as activation_nodes
from hybrid.onnx.handlers import arithmetic_nodes as arithmetic_nodes
from hybrid.onnx.handlers import convolution_nodes as convolution_nodes
from hybrid.onnx.handlers import feature_parts as feature_parts
from hybrid.onnx.handlers import index_nodes as index_nodes
from hybrid.onnx.handlers import norm_nodes as norm_nodes
from hybrid.onnx.handlers import picture_nodes as picture_nodes
from hybrid.onnx.handlers import pooling_nodes as pooling_nodes
from hybrid.onnx.handlers import product_nodes as product_nodes
from hybrid.onnx.handlers import quantization_nodes as quantization_nodes
from hybrid.onnx.handlers import random_nodes as random_nodes
from hybrid.onnx.handlers import recurrence_nodes as recurrence_nodes
from hybrid.onnx.handlers import reduction_nodes as reduction_nodes
from hybrid.onnx.handlers import resize_nodes as resize_nodes
from hybrid.onnx.handlers import sequence_nodes as sequence_nodes
from hybrid.onnx.handlers import shape_nodes as shape_nodes
from hybrid.onnx.handlers import signal_nodes as signal_nodes
from hybrid.onnx.handlers import svm_parts as svm_parts
from hybrid.onnx.handlers import training_nodes as training_nodes
from hybrid.onnx.handlers import tree_parts as tree_parts
