"""One call of a hybridized function: from its arguments to the plan that serves it."""
