"""What became of a function when it was captured, told along its author's source."""

from hybrid.explain.arguments import leaf_names as leaf_names
from hybrid.explain.build import build as build
from hybrid.explain.explanation import Explanation as Explanation
from hybrid.explain.inputs import place_names as place_names
from hybrid.explain.reasons import Request as Request
from hybrid.explain.reasons import numbers_text as numbers_text
from hybrid.explain.reasons import why_new as why_new
from hybrid.explain.watch import Watch as Watch
