"""What is timed while something holds the GPU's clocks down is timed again: the rules of
common/measure/calm.cpp. Needs no PyTorch."""

REPEATS = 3  # of one measurement, at most
IN_VAIN = 3  # measurements in a row that no repeat has helped, at most
_FIRST_REST = 2  # seconds; each rest is twice as long as the one before

# NVML's reasons for lower clocks. That the GPU is idle, or that somebody has set its clocks, is no
# disturbance.
_HEAT = 0x20 | 0x40  # slowdowns by software and by hardware
_POWER = 0x4 | 0x8 | 0x80  # the power cap, a slowdown by hardware, a power brake


def disturbance_of(reasons):
    """What these reasons of NVML's say, as the CSV has it: "power", "heat" or "" for nothing."""
    if reasons & _HEAT:
        return "heat"
    return "power" if reasons & _POWER else ""


class Calm:
    """Repeats what was disturbed, in the hope that the GPU gets its clocks back.

    reading() returns what holds the clocks down at this moment; "" also where nobody can tell.
    rest(disturbance, seconds) leaves the GPU alone, and says why.
    """

    def __init__(self, reading=lambda: "", rest=lambda disturbance, seconds: None):
        self._reading, self._rest = reading, rest
        self._in_vain = 0

    def timed(self, measure):
        """Returns what measure(look) returns, and by what it stays disturbed, or "".

        measure calls look() while the GPU works. If a look found something, the GPU rests and
        measure is called again, three times at most. After three measurements in a row that no
        repeat has helped, the next is called once: a GPU that is always at its cap would do little
        but rest.
        """
        repeats = REPEATS if self._in_vain < IN_VAIN else 0
        for repeat in range(repeats + 1):
            seen = []

            def look(seen=seen):
                if not seen and (disturbance := self._reading()):
                    seen.append(disturbance)

            result = measure(look)
            if not seen:
                self._in_vain = 0
                return result, ""
            if repeat < repeats:
                self._rest(seen[0], _FIRST_REST << repeat)
        self._in_vain += 1
        return result, seen[0]
