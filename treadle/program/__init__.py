"""Programs: groups of nodes, buffers in an arena, a flat list of steps."""
