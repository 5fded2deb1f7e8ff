"""An engine with a memory of its own, into which values are copied."""
