"""Transformers: attention, layers, stacks, and models over tokens."""
# ruff: noqa: F403

from treadle.nn.transformer.bert import *
from treadle.nn.transformer.heads import *
from treadle.nn.transformer.layers import *
from treadle.nn.transformer.mixers import *
from treadle.nn.transformer.stack import *
from treadle.nn.transformer.translator import *
