"""The order of groups: all nodes of one signature that are ready are done at once.

By signature first, and among those that are ready the one whose nodes lie lowest on
average (Neubig et al., "On-the-fly operation batching in dynamic computation graphs",
2017). Nodes of one signature and depth are one class; the agenda looks at classes.
"""

from __future__ import annotations

import numpy as np

from treadle.base.arrays import Numbers

FAR = 16  # a table of so many times as many values is counted in,
SMALL = 4096  # and one of so many whatever is in it


def agenda(
    signatures: Numbers, depths: Numbers, readers: Numbers, read: Numbers
) -> Numbers:
    """The step at which each unit is done.

    `readers` and `read` are the edges: unit readers[k] reads what unit read[k] makes,
    which lies less deep.

    >>> signature, depth = np.array([0, 0, 1, 0, 1]), np.array([1, 1, 2, 2, 3])
    >>> agenda(signature, depth, np.array([2, 3, 4]), np.array([0, 1, 3])).tolist()
    [0, 0, 2, 1, 2]
    """
    span = int(depths.max(initial=0)) + 1
    codes, classes, counts = _different(signatures * span + depths)
    signature_of, depth_of = codes // span, codes % span
    # By what is read: the readers of one class lie side by side.
    edges = _different(classes[read] * len(codes) + classes[readers])[0]
    behind, ends = edges % len(codes), np.arange(len(codes) + 1) * len(codes)
    waits = np.bincount(behind, minlength=len(codes)).tolist()
    follow, starts = behind.tolist(), edges.searchsorted(ends).tolist()
    many = int(signatures.max(initial=0)) + 1
    left = np.bincount(signature_of, counts, many).tolist()
    depth = np.bincount(signature_of, counts * depth_of, many).tolist()
    signature_of, depth_of, counts = (
        signature_of.tolist(),
        depth_of.tolist(),
        counts.tolist(),
    )
    ready: dict[int, list[int]] = {}
    for k, n in enumerate(waits):
        if not n:
            ready.setdefault(signature_of[k], []).append(k)
    step = np.zeros(len(codes), np.int64)
    done = 0
    while ready:
        chosen = min(ready, key=lambda s: (depth[s] / left[s], s))
        for k in ready.pop(chosen):
            step[k] = done
            left[chosen] -= counts[k]
            depth[chosen] -= counts[k] * depth_of[k]
            for reader in follow[starts[k] : starts[k + 1]]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready.setdefault(signature_of[reader], []).append(reader)
        done += 1
    return step[classes]


def _different(values: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """The different values, the place of each among them, how often each is there.

    None is negative. They are counted where they are not far apart, sorted where they
    are.
    """
    if values.max(initial=0) > max(FAR * len(values), SMALL):
        return np.unique(values, return_inverse=True, return_counts=True)
    counts = np.bincount(values)
    (codes,) = np.nonzero(counts)
    places = np.zeros(len(counts), np.int64)
    places[codes] = np.arange(len(codes))
    return codes, places[values], counts[codes]
