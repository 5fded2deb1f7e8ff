"""The module of linear algebra by its public name, for `import treadle.linalg`."""

import sys

from treadle.ops.linalg import *
from treadle.ops.linalg import __all__ as __all__

# One module under both names: `treadle` gives the one that it guards.
sys.modules[__name__] = sys.modules["treadle"].linalg
