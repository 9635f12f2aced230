"""The clock of common/measure/benchmark.cpp: launches in a CUDA graph, replays timed with events."""

import math

import torch

_GRAPH_US = 2000  # long against the events' resolution of about 0.5 us
_MOST_LAUNCHES = 16384


class Recording:
    """A graph of `launches` launches in a row, over the sets in turn.

    launch(set) enqueues one launch on tensors of the set and returns its outputs. They are kept
    until the set's turn comes again: where an implementation allocates, each set has outputs of its
    own, and they are cold, too. (Memory is allocated while the graph is recorded, not when it is
    replayed: it costs no time.)
    """

    def __init__(self, launch, launches, sets, stream):
        self.launches = launches
        self.outputs = [None] * sets
        self._stream = stream
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            for i in range(launches):
                self.outputs[i % sets] = None
                self.outputs[i % sets] = launch(i % sets)

    def replay(self):
        """Enqueues the launches."""
        with torch.cuda.stream(self._stream):
            self._graph.replay()

    def time(self, count):
        """Enqueues replays; returns a function that waits, and returns their times in microseconds.

        One more replay goes first: when the first event fires, the GPU has work, and the time that
        the CPU takes to ask for a replay does not count.
        """
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        for event in events:
            self.replay()
            event.record(self._stream)

        def times():
            events[-1].synchronize()
            return [1e3 * begin.elapsed_time(end) for begin, end in zip(events, events[1:])]

        return times


def record_for_timing(launch, sets, stream):
    """A graph of whole rounds over the sets that takes long enough to be timed."""
    one_round = Recording(launch, sets, sets, stream)
    rounds = max(1, math.ceil(_GRAPH_US / one_round.time(2)()[-1]))
    rounds = min(rounds, math.ceil(_MOST_LAUNCHES / sets))
    if rounds == 1:
        return one_round
    del one_round  # with the memory of its outputs
    return Recording(launch, sets * rounds, sets, stream)
