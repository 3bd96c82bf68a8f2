"""How ops are written in ONNX, one family a file; importing it fills the table of rules."""

from hybrid.onnx.rules import control_rules as control_rules
from hybrid.onnx.rules import elementwise_rules as elementwise_rules
from hybrid.onnx.rules import function_rules as function_rules
from hybrid.onnx.rules import grouped_rules as grouped_rules
from hybrid.onnx.rules import index_rules as index_rules
from hybrid.onnx.rules import layer_rules as layer_rules
from hybrid.onnx.rules import reduction_rules as reduction_rules
from hybrid.onnx.rules import shape_rules as shape_rules
from hybrid.onnx.rules import spatial_rules as spatial_rules
from hybrid.onnx.rules import sum_rules as sum_rules
