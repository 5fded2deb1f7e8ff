"""Computations in the files of Nervana Graph."""

from treadle.io.nervana.load import load_nervana as load_nervana
from treadle.io.nervana.save import save_nervana as save_nervana
