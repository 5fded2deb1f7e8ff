"""The module of Fourier transforms by its public name, for `import treadle.fft`."""

import sys

from treadle.ops.fft import *
from treadle.ops.fft import __all__ as __all__

# One module under both names: `treadle` gives the one that it guards.
sys.modules[__name__] = sys.modules["treadle"].fft
