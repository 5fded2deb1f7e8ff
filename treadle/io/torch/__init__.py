"""Files of torch.save, read without running what is in them."""

from treadle.io.torch.file import Torch as Torch
