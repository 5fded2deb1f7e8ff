"""The judge of memory plans: replays steps byte by byte, knows nothing of planners."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from typing import Protocol


class _Placed(Protocol):
    @property
    def offsets(self) -> Sequence[int]: ...
    @property
    def size(self) -> int: ...


class _Living(Protocol):
    @property
    def bytes(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


class Owners:
    """The last writer of each byte: sorted spans that do not overlap."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._spans: list[tuple[int, int, int]] = []  # begin, end, owner

    def among(self, begin: int, end: int) -> list[tuple[int, int, int]]:
        """The written spans that touch bytes begin .. end-1, in order."""
        if end <= begin:
            return []
        low, high = self._touching(begin, end)
        return self._spans[low:high]

    def write(self, begin: int, end: int, owner: int) -> None:
        """Bytes begin .. end-1 belong to `owner` from now on."""
        if end <= begin:
            return
        low, high = self._touching(begin, end)
        new = [(begin, end, owner)]
        if low < high:
            left, right = self._spans[low], self._spans[high - 1]
            if left[0] < begin:
                new.insert(0, (left[0], begin, left[2]))
            if right[1] > end:
                new.append((end, right[1], right[2]))
        self._spans[low:high] = new
        self._begins[low:high] = [span[0] for span in new]

    def owns(self, begin: int, end: int, owner: int) -> bool:
        """Whether every byte was last written by `owner`."""
        reached = begin
        for low, high, who in self.among(begin, end):
            if low > reached or who != owner:
                return False
            reached = high
        return reached >= end

    def _touching(self, begin: int, end: int) -> tuple[int, int]:
        low = bisect_right(self._begins, begin)
        if low and self._spans[low - 1][1] > begin:
            low -= 1
        return low, bisect_left(self._begins, end)


def check(plan: _Placed, ranges: Sequence[_Living], alignment: int = 64) -> list[str]:
    """The faults of a memory plan, a sentence each: empty when it is right.

    Each range is written whole at its first step and must be whole at its last.
    """
    if len(plan.offsets) != len(ranges):
        return [f"{len(ranges)} ranges have {len(plan.offsets)} offsets"]
    wrong = _outside(plan.offsets, [r.bytes for r in ranges], plan.size, alignment)
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, living in enumerate(ranges):
        if living.last < living.first:
            wrong.append(f"range {number} ends before it starts")
            continue
        starts.setdefault(living.first, []).append(number)
        ends.setdefault(living.last, []).append(number)
    owners = Owners()
    for step in sorted({*starts, *ends}):
        for number in starts.get(step, ()):
            begin = plan.offsets[number]
            owners.write(begin, begin + ranges[number].bytes, number)
        for number in ends.get(step, ()):
            begin = plan.offsets[number]
            end = begin + ranges[number].bytes
            if not owners.owns(begin, end, number):
                others = sorted({o for *_, o in owners.among(begin, end)} - {number})
                wrong.append(
                    f"range {number} (bytes {begin} to {end}) is overwritten by "
                    f"{others} before step {step} ends"
                )
    return wrong


def _outside(
    offsets: Sequence[int], sizes: Sequence[int], capacity: int, alignment: int
) -> list[str]:
    wrong = []
    for number, (begin, size) in enumerate(zip(offsets, sizes, strict=True)):
        if begin < 0 or begin + size > capacity:
            wrong.append(
                f"buffer {number} (bytes {begin} to {begin + size}) lies outside the "
                f"arena of {capacity} bytes"
            )
        if begin % alignment:
            wrong.append(f"buffer {number} at {begin} is not aligned to {alignment}")
    return wrong


def replay(
    offsets: Sequence[int],
    sizes: Sequence[int],
    capacity: int,
    uses: Sequence[Sequence[int]],
    makes: Sequence[Sequence[int]],
    *,
    elsewhere: Collection[int] = (),
    kept: Collection[int] = (),
    in_place: Collection[tuple[int, int, int]] = (),
    alignment: int = 64,
) -> list[str]:
    """The faults when steps run in this order on buffers at `offsets`.

    Step s reads buffers uses[s] and writes buffers makes[s]; both are there at the same
    time, unless (s, read, made) is `in_place`. Buffers `elsewhere` lie outside the
    arena; buffers `kept` must be whole at the end.
    """
    here = [0 if k in elsewhere else size for k, size in enumerate(sizes)]
    wrong = _outside(
        [o if here[k] else 0 for k, o in enumerate(offsets)], here, capacity, alignment
    )
    owners = Owners()
    shared = frozenset(in_place)
    written = set(elsewhere)

    def expect(buffer: int, when: str) -> None:
        if buffer not in written:
            wrong.append(f"buffer {buffer} is read {when} but never written")
            return
        begin, end = offsets[buffer], offsets[buffer] + here[buffer]
        if not owners.owns(begin, end, buffer):
            others = {o for *_, o in owners.among(begin, end)} - {buffer}
            wrong.append(
                f"buffer {buffer} is read {when} after {sorted(others)} overwrote it"
            )

    for step, (reads, writes) in enumerate(zip(uses, makes, strict=True)):
        for buffer in reads:
            expect(buffer, f"by step {step}")
        for target in writes:
            begin, end = offsets[target], offsets[target] + here[target]
            touched = {o for *_, o in owners.among(begin, end)}
            for other in sorted(touched & set(reads) - {target}):
                if (step, other, target) not in shared:
                    wrong.append(
                        f"step {step} writes buffer {target} over buffer {other}, "
                        "which it reads"
                    )
            owners.write(begin, end, target)
            written.add(target)
        for target in writes:
            expect(target, f"after step {step}, which made it,")
    for buffer in kept:
        expect(buffer, "at the end")
    return wrong


def conflicts(
    offsets: Sequence[int], sizes: Sequence[int], chains: Sequence[Collection[int]]
) -> list[str]:
    """The places that parallel chains touch both: a sentence each.

    `chains` has the buffers that each one touches; reading the same one is no fault of
    theirs, but two buffers at one address are.
    """
    owners: list[tuple[int, int, int, int]] = []
    for chain, buffers in enumerate(chains):
        for k in buffers:
            if sizes[k]:
                owners.append((offsets[k], offsets[k] + sizes[k], k, chain))
    owners.sort()
    wrong = []
    open_: list[tuple[int, int, int, int]] = []
    for begin, end, k, chain in owners:
        open_ = [one for one in open_ if one[1] > begin]
        for _, _, other, of in open_:
            if other != k and of != chain:
                wrong.append(
                    f"chain {chain} touches buffer {k} where chain {of} touches "
                    f"buffer {other}"
                )
        open_.append((begin, end, k, chain))
    return wrong
