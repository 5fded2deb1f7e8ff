"""The graph: nodes, the op contract, Variables and traced bodies."""
