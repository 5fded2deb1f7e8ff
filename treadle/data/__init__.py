"""Data sets, batches in an order that can be resumed, text and trees as numbers."""

import typing as _typing

from treadle.base.boundary import guard as _guard
from treadle.base.torch import missing as _missing
from treadle.data.conllu import Row, Sentence, parse_conllu, read_conllu
from treadle.data.dataset import (
    ArrayDataset,
    Dataset,
    Images,
    ListDataset,
    ScaleFirst,
    pad,
    permutation,
)
from treadle.data.draws import generator
from treadle.data.images import load_images
from treadle.data.listops import generate_listops, listops_value
from treadle.data.loader import Loader
from treadle.data.text import Tagged, read_lines, read_tagged, read_text
from treadle.data.tree import Tree, read_trees
from treadle.data.vectors import WordVectors, read_vectors, write_vectors
from treadle.data.vocabulary import Vocabulary

__all__ = [
    "ArrayDataset",
    "Dataset",
    "Images",
    "ListDataset",
    "Loader",
    "Row",
    "ScaleFirst",
    "Sentence",
    "Tagged",
    "Tree",
    "Vocabulary",
    "WordVectors",
    "generate_listops",
    "generator",
    "listops_value",
    "load_images",
    "pad",
    "parse_conllu",
    "permutation",
    "read_conllu",
    "read_lines",
    "read_tagged",
    "read_text",
    "read_trees",
    "read_vectors",
    "write_vectors",
]

_guard(globals())


if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
