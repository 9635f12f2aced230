"""Implementations are timed in turns, so that a drift of the GPU's clock hits all alike. Needs no
PyTorch."""

import math

from .results import NOISY_PCT, summarise

FEWEST_SAMPLES = 11
MOST_SAMPLES = 1000
SAMPLES_A_TURN = 3
_ATTEMPTS = 3


def turns_for(replay_us, min_seconds):
    """How many turns of 3 samples one implementation needs for min_seconds, and for 11 samples."""
    samples = math.ceil(1e6 * min_seconds / replay_us)
    samples = min(max(samples, FEWEST_SAMPLES), MOST_SAMPLES)
    return math.ceil(samples / SAMPLES_A_TURN)


def time_in_turns(recordings, min_seconds, look=lambda: None):
    """Times {name: recording}; returns {name: Timing of one launch}.

    recording.launches is the number of launches in a replay. recording.time(count) enqueues
    replays and returns a function that waits for them and returns their `count` times in
    microseconds. Each implementation gets at least 11 samples; all are timed up to three times as
    long while one of them is noisy. look() is called again and again while the GPU works.
    """
    turns = {
        name: turns_for(recording.time(2)()[-1], min_seconds)
        for name, recording in recordings.items()}
    samples = {name: [] for name in recordings}
    timings = {}
    for _ in range(_ATTEMPTS if recordings else 0):
        enqueued = []
        for turn in range(max(turns.values())):
            for name, recording in recordings.items():
                if turn < turns[name]:
                    enqueued.append((name, recording.time(SAMPLES_A_TURN)))
            look()  # here too: only so many replays can be enqueued before some are done
        for name, times in enqueued:
            samples[name] += [us / recordings[name].launches for us in times()]
            look()
        timings = {name: summarise(of_one) for name, of_one in samples.items()}
        if all(timing.spread_pct <= NOISY_PCT for timing in timings.values()):
            break
    return timings
