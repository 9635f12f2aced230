"""What is measured: an operation, a type and a shape. Needs no PyTorch."""

from dataclasses import dataclass

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

# Tensors of the shape of x that must cross global memory, each once: reads and writes.
#   forward, decode   x; y
#   forward_3d        q and k; their results. The rows of both count as rows.
#   residual_add      x, residual; residual, y
#   backward          dy, x; dx
# The weight, its gradient and one number a row are small beside them, and are not counted.
TENSORS_MOVED = {"forward": 2, "decode": 2, "forward_3d": 2, "residual_add": 4, "backward": 3}

# The operations of common/operations that have regimes of their own; the others are of rms_norm.
_OPERATIONS = ("residual_add", "backward")


@dataclass(frozen=True)
class Case:
    """One operation on tensors of one type and shape."""

    regime: str  # a key of TENSORS_MOVED
    dtype: str  # of x, the weight and y; a key of ELEMENT_BYTES
    shape: tuple  # (rows, hidden), or (batch, heads, head_dim) of q and of k

    @property
    def operation(self):
        """What is computed, as our own results have it."""
        return self.regime if self.regime in _OPERATIONS else "rms_norm"

    @property
    def hidden(self):
        """Columns of a row, which is what is normed."""
        return self.shape[-1]

    @property
    def rows(self):
        """Rows that one launch norms; of q and k together where there are both."""
        rows = 1
        for extent in self.shape[:-1]:
            rows *= extent
        return 2 * rows if self.regime == "forward_3d" else rows

    @property
    def bytes_per_row(self):
        """Bytes that must cross global memory for a row."""
        return TENSORS_MOVED[self.regime] * self.hidden * ELEMENT_BYTES[self.dtype]

    @property
    def bytes_moved(self):
        """Bytes that must cross global memory for all rows."""
        return self.rows * self.bytes_per_row

    @property
    def label(self):
        """The words that --shape looks in: "forward bf16 32768x4096"."""
        return f"{self.regime} {self.dtype} {'x'.join(map(str, self.shape))}"


def all_cases():
    """Every case, in the order of the tables."""
    powers_of_two = [256 << i for i in range(9)]  # 256 to 65536
    cases = [Case("forward", "bf16", (32768, hidden)) for hidden in powers_of_two]
    for shape in ((16384, 131072), (8192, 262144), (4194304, 128)):
        cases += [Case("forward", "bf16", shape)]
    # Odd lengths, whose rows are not aligned, and their even neighbours.
    cases += [Case("forward", "bf16", (32768, hidden)) for hidden in (768, 769, 12288, 12289)]
    cases += [Case("forward", "fp32", (262144, 4096))]
    for hidden in (4096, 8192):
        cases += [Case("decode", "bf16", (rows, hidden)) for rows in (1, 8, 64, 512)]
    cases += [Case("decode", "bf16", (rows, 65536)) for rows in (1, 16)]
    cases += [Case("forward_3d", "bf16", (27030, 24, 128))]
    cases += [Case("residual_add", "bf16", (4096, hidden)) for hidden in (4096, 8192)]
    cases += [Case("backward", "bf16", (16384, 4096))]
    return cases


def quick_cases():
    """One case of each regime: does everything work?"""
    first = {}
    for case in all_cases():
        first.setdefault(case.regime, case)
    return list(first.values())
