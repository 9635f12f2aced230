"""The clock of common/benchmark.cpp: launches in a CUDA graph, replays timed with events.

Contenders take turns, so that a drift of the GPU's clock hits all alike.
"""

import math

import torch

from .results import NOISY_PCT, summarise

_GRAPH_US = 2000  # long against the events' resolution of about 0.5 us
_MOST_LAUNCHES = 16384
_FEWEST_SAMPLES = 11
_MOST_SAMPLES = 1000
_SAMPLES_A_TURN = 3


class Recording:
    """A graph of `launches` launches in a row, over the sets in turn.

    launch(set) enqueues one launch on tensors of the set and returns its outputs. They are kept
    until the set's turn comes again: where a contender allocates, each set has an output of its
    own, and the cache stays cold for it, too.
    """

    def __init__(self, launch, launches, sets, stream):
        self.launches = launches
        self.outputs = [None] * sets
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream, capture_error_mode="thread_local"):
            for i in range(launches):
                self.outputs[i % sets] = None
                self.outputs[i % sets] = launch(i % sets)


def _time_replays(recording, count, stream):
    """Microseconds of `count` replays. One more goes first: when the first event fires, the GPU has
    work, and the time that the CPU takes to ask for a replay does not count."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    with torch.cuda.stream(stream):
        for event in events:
            recording.graph.replay()
            event.record()
    return events


def _microseconds(events):
    events[-1].synchronize()
    return [1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]


def record_for_timing(launch, sets, stream):
    """A graph of whole rounds over the sets that takes long enough to be timed."""
    one_round = Recording(launch, sets, sets, stream)
    round_us = _microseconds(_time_replays(one_round, 2, stream))[-1]
    rounds = max(1, math.ceil(_GRAPH_US / round_us))
    rounds = min(rounds, math.ceil(_MOST_LAUNCHES / sets))
    if rounds == 1:
        return one_round
    del one_round
    return Recording(launch, sets * rounds, sets, stream)


def time_in_turns(recordings, stream, min_seconds):
    """A Timing for each of {name: Recording}. Each takes at least min_seconds and 11 samples, and
    up to three times as many while one of them is noisy."""
    turns = {}
    for name, recording in recordings.items():
        seconds = 1e-6 * _microseconds(_time_replays(recording, 2, stream))[-1]
        samples = min(max(math.ceil(min_seconds / seconds), _FEWEST_SAMPLES), _MOST_SAMPLES)
        turns[name] = math.ceil(samples / _SAMPLES_A_TURN)
    samples = {name: [] for name in recordings}
    for _ in range(3):
        events = []
        for turn in range(max(turns.values(), default=0)):
            for name, recording in recordings.items():
                if turn < turns[name]:
                    events.append((name, _time_replays(recording, _SAMPLES_A_TURN, stream)))
        for name, of_turn in events:
            launches = recordings[name].launches
            samples[name] += [us / launches for us in _microseconds(of_turn)]
        timings = {name: summarise(of_one) for name, of_one in samples.items()}
        if all(timing.spread_pct <= NOISY_PCT for timing in timings.values()):
            break
    return timings
