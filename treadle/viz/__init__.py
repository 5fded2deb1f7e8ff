"""Pictures of graphs and of training."""
