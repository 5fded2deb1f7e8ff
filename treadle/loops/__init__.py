"""The Kernel IR: loops over affine loads, expressions, reductions and stores."""
