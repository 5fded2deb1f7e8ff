"""Streams: one for launches in order, and one for each chain of a region."""

from __future__ import annotations

from ctypes import c_void_p

from treadle.engines.gpu.cuda.library import Library

__all__ = ["Streams"]

_BLOCKING = 0  # streams wait for copies between host and device, and these for them
_NO_TIMES = 2  # of events, which only order


class Streams:
    """The streams of a context; chains begin after all before `fork`, and what follows
    `join` begins after all of them."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._every = [library.handle("cuStreamCreate", _BLOCKING)]
        self._event = library.handle("cuEventCreate", _NO_TIMES)
        self._chains = 0
        self.current = self._every[0]

    def fork(self, chains: int) -> None:
        """Begin so many chains; the first of them goes on with the stream that is."""
        assert not self._chains, "regions are not nested"
        while len(self._every) < chains:
            self._every.append(self._library.handle("cuStreamCreate", _BLOCKING))
        self._chains = chains
        for stream in self._every[1:chains]:
            self._order(self._every[0], stream)

    def follow(self, chain: int) -> None:
        """Launch into a chain from now on."""
        assert chain < self._chains, f"chain {chain} of {self._chains}"
        self.current = self._every[chain]

    def join(self) -> None:
        """End the chains."""
        for stream in self._every[1 : self._chains]:
            self._order(stream, self._every[0])
        self._chains = 0
        self.current = self._every[0]

    def _order(self, before: c_void_p, after: c_void_p) -> None:
        """What comes on one stream waits for what is on another now."""
        self._library.call("cuEventRecord", self._event, before)
        self._library.call("cuStreamWaitEvent", after, self._event, 0)
