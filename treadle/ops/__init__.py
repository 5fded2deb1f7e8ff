"""The ops, one class each, grouped in files by family."""
