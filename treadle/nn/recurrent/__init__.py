"""Recurrent cells for sequences and trees, and what drives them."""
# ruff: noqa: F403

from treadle.nn.recurrent.cell import *
from treadle.nn.recurrent.gru import *
from treadle.nn.recurrent.lstm import *
from treadle.nn.recurrent.multiplicative import *
from treadle.nn.recurrent.sequence import *
from treadle.nn.recurrent.stack import *
from treadle.nn.recurrent.state import *
from treadle.nn.recurrent.tree import *
