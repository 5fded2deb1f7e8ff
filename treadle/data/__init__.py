"""Data sets, and batches of them in an order that can be resumed."""
