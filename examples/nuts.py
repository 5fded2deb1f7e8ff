"""The eight schools by NUTS: nutpie calls a Treadle computation as a function of C.

    pip install nutpie
    python examples/nuts.py

Eight schools coached pupils for a test, each with an effect and its standard error
(Rubin, "Estimation in parallel randomized experiments", 1981). The effects have a mean
and a spread in common, whose logarithm is sampled; effects are the mean and a multiple
of the spread (the non-centered model of Gelman et al., "Bayesian Data Analysis", 5.5).
No Python runs while the chains are drawn, so they share the processors.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

import treadle as td

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = len(EFFECTS)


def log_density(x: td.Tensor) -> td.Tensor:
    """The logarithm of the posterior density at x (10,), up to a constant.

    x has the mean, the logarithm of the spread and a standardized effect of each
    school; the mean is normal with deviation 5, the spread half-Cauchy with scale 5.
    """
    mean, log_spread, effects = x[0], x[1], x[2:]
    spread = td.exp(log_spread)
    residuals = (EFFECTS - mean - spread * effects) / ERRORS
    priors = td.sum(effects * effects) + (mean / 5.0) ** 2
    cauchy = log_spread - td.log1p((spread / 5.0) ** 2)
    return -0.5 * (td.sum(residuals * residuals) + priors) + cauchy


def model() -> td.Computation:
    """The density and its gradient as a computation of x (10,) in float64."""
    x = td.placeholder((SCHOOLS + 2,), "float64", name="x")
    value = log_density(x)
    return td.computation((value, td.grad(value, x)), x)


def draws(f: td.Computation, chains: int, count: int, seed: int) -> Any:
    """Draws (chains, count, 10) of the density by nutpie, after 400 for tuning."""
    import nutpie
    from nutpie import _lib
    from nutpie.compiled_pyfunc import CompiledModel

    doubles = ctypes.POINTER(ctypes.c_double)
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, *[ctypes.c_uint64] * 2, *[doubles] * 2, ctypes.c_void_p
    )

    @kind
    def keep(n: int, _: int, x: Any, out: Any, __: Any) -> int:
        ctypes.memmove(out, x, 8 * n)
        return 0

    class Model(CompiledModel):
        n_dim = SCHOOLS + 2
        shapes: ClassVar = {"x": (SCHOOLS + 2,)}
        coords: ClassVar[dict[str, Any]] = {}

        def _make_model(self, _: Any) -> Any:
            address = ctypes.cast(keep, ctypes.c_void_p).value
            n, names = self.n_dim, ({"place": self.n_dim}, {"x": ["place"]})
            return _lib.PyMcModel(
                _lib.LogpFunc(f.address, f.data, f),
                _lib.ExpandFunc(n, n, address, 0, keep),
                _lib.PyVariable.new_variables(["x"], ["float64"], [(n,)], *names),
                n,
                names[0],
                {},
                lambda seed: np.random.default_rng(seed).standard_normal(n),
                None,
            )

        def _make_sampler(
            self, settings: Any, mean: Any, cores: int, kind: Any, store: Any
        ) -> Any:
            own = self._make_model(mean)
            return _lib.PySampler.from_pymc(settings, cores, own, kind, store)

    found = nutpie.sample(
        Model(dims={"x": ("place",)}), draws=count, tune=400, chains=chains, seed=seed,
        progress_bar=False,
    )  # fmt: skip
    return found.posterior["x"].to_numpy()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    x = draws(model(), given.chains, given.draws, given.seed)
    spread = np.exp(x[..., 1])
    effects = x[..., :1] + spread[..., None] * x[..., 2:]
    print(f"mean {x[..., 0].mean():.1f}, spread {spread.mean():.1f}")
    for k, (effect, error) in enumerate(zip(EFFECTS, ERRORS, strict=True)):
        own = effects[..., k]
        print(
            f"school {'ABCDEFGH'[k]}: {effect:5.1f} +- {error:4.1f} measured, "
            f"{own.mean():4.1f} +- {own.std():.1f} with the others known"
        )


if __name__ == "__main__":
    main()
