"""Plans: from a graph to the flat arrays that C executes."""

from hybrid.plan.interpret import interpret as interpret
from hybrid.plan.plan import Plan as Plan
from hybrid.plan.plan import all_plans as all_plans
from hybrid.plan.plan import make_plan as make_plan
from hybrid.plan.plan import on_new_plans as on_new_plans
