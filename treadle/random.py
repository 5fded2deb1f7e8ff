"""The module of random draws by its public name, for `import treadle.random`."""

import sys

from treadle.ops.random import *
from treadle.ops.random import __all__ as __all__

# One module under both names: `treadle` gives the one that it guards.
sys.modules[__name__] = sys.modules["treadle"].random
