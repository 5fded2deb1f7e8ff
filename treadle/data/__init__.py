"""Data sets, batches in an order that can be resumed, text and trees as numbers."""

import typing as _typing

from treadle.base.boundary import guard as _guard
from treadle.base.names import public as _public
from treadle.base.torch import missing as _missing
from treadle.data.conllu import Row as Row
from treadle.data.conllu import Sentence as Sentence
from treadle.data.conllu import parse_conllu as parse_conllu
from treadle.data.conllu import read_conllu as read_conllu
from treadle.data.dataset import ArrayDataset as ArrayDataset
from treadle.data.dataset import Dataset as Dataset
from treadle.data.dataset import Images as Images
from treadle.data.dataset import ListDataset as ListDataset
from treadle.data.dataset import ScaleFirst as ScaleFirst
from treadle.data.dataset import pad as pad
from treadle.data.dataset import permutation as permutation
from treadle.data.draws import generator as generator
from treadle.data.images import load_images as load_images
from treadle.data.listops import generate_listops as generate_listops
from treadle.data.listops import listops_value as listops_value
from treadle.data.loader import Loader as Loader
from treadle.data.text import Tagged as Tagged
from treadle.data.text import read_lines as read_lines
from treadle.data.text import read_tagged as read_tagged
from treadle.data.text import read_text as read_text
from treadle.data.tree import Tree as Tree
from treadle.data.tree import read_trees as read_trees
from treadle.data.vectors import WordVectors as WordVectors
from treadle.data.vectors import read_vectors as read_vectors
from treadle.data.vectors import write_vectors as write_vectors
from treadle.data.vocabulary import Vocabulary as Vocabulary

__all__ = _public(globals())

_guard(globals())


if not _typing.TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
