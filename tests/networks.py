"""A small network that several tests train."""

from __future__ import annotations

import treadle as td


def small_network(maps: int, hidden: int) -> td.nn.Sequential:
    """Owl's network, smaller: ten scores of images of 12 by 12."""
    return td.nn.Sequential(
        td.nn.Conv2d(1, maps, 5, padding=2),
        td.nn.ReLU(),
        td.nn.MaxPool2d(2),
        td.nn.Dropout(0.1),
        td.nn.Flatten(),
        td.nn.Linear(maps * 36, hidden),
        td.nn.ReLU(),
        td.nn.Linear(hidden, 10),
    )
