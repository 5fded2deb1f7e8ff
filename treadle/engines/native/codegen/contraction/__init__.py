"""Matrix products as generated code; see README.md."""

from __future__ import annotations

from treadle.engines.native.codegen.contraction.epilogue import Epilogue, Site, store
from treadle.engines.native.codegen.contraction.matmul import MatmulPlan, plan_matmul

__all__ = ["Epilogue", "MatmulPlan", "Site", "plan_matmul", "store"]
