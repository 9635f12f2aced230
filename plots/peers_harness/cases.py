"""What is measured: an operation, a type and a shape. Needs no PyTorch."""

from dataclasses import dataclass

ELEMENT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}

# Tensors of the shape of x that must cross global memory, each once: reads and writes.
#   forward, decode   x; y
#   forward_3d        q and k; their results. The rows of both count as rows.
#   rotation          the same, and each result is turned by tables, which are small
#   residual_add      x, residual; residual, y
#   backward          dy, x; dx
#   gated             x, z; y. gated_first is the same, with the gate before the norm.
#   gated_backward    dy, x, z; dx, dz
#   in 8 bits         x; with a residual, that twice, too. y and the scales come on top.
# The weight, its gradient and one number a row are small beside them, and are not counted.
# tests/test_peers.cpp compares what comes of it with the descriptions in common/operations.
TENSORS_MOVED = {"forward": 2, "decode": 2, "forward_3d": 2, "rotation": 2, "residual_add": 4,
                 "backward": 3, "gated": 3, "gated_first": 3, "gated_backward": 5}

# The operations in 8 bits, and their scales: an operation's regimes are it, and "decode_" and it.
SCALING = {
    "rms_norm_e4m3": "given", "rms_norm_e4m3_row": "row", "rms_norm_e4m3_group": "group",
    "rms_norm_mxfp8": "block", "residual_add_e4m3": "given", "residual_add_e4m3_group": "group"}
for _name in SCALING:
    for _regime in (_name, "decode_" + _name):
        TENSORS_MOVED[_regime] = 3 if _name.startswith("residual_add") else 1
GROUP = 128  # columns that share a scale of a group
BLOCK = 32  # likewise of a block: a power of two, in a byte

MODEL_WIDTHS = (2560, 5120, 7168, 14336)  # of models, and no powers of two

# The names that our own results have for the operations of these regimes. Others, but for those in
# 8 bits, are of rms_norm.
_OPERATIONS = {
    "rotation": "qk_norm_rotation", "residual_add": "residual_add", "backward": "backward", "gated": "gated_norm",
    "gated_first": "gated_norm", "gated_backward": "gated_norm_backward"}


@dataclass(frozen=True)
class Case:
    """One operation on tensors of one type and shape."""

    regime: str  # a key of TENSORS_MOVED
    dtype: str  # of x, the weight and y; a key of ELEMENT_BYTES
    shape: tuple  # (rows, hidden), or (batch, heads, head_dim) of q and of k

    @property
    def operation(self):
        """What is computed, as our own results have it."""
        name = self.regime.removeprefix("decode_")
        return name if name in SCALING else _OPERATIONS.get(name, "rms_norm")

    @property
    def scaling(self):
        """Whose scale an 8-bit y has: "given", "row", "group" or "block"; None for others."""
        return SCALING.get(self.operation)

    @property
    def has_residual(self):
        """Whether x is added to a residual."""
        return self.operation.startswith("residual_add")

    @property
    def is_backward(self):
        """Whether it is about gradients."""
        return self.regime in ("backward", "gated_backward")

    @property
    def is_gated(self):
        """Whether there is a gate, z."""
        return self.regime.startswith("gated")

    @property
    def is_of_pair(self):
        """Whether there are two tensors, q and k."""
        return self.regime in ("forward_3d", "rotation")

    @property
    def is_turned(self):
        """Whether they are turned after their norm, by tables of cosines and sines."""
        return self.regime == "rotation"

    @property
    def scales(self):
        """Scales that are stored for a row."""
        return {"row": 1, "group": self.hidden // GROUP, "block": self.hidden // BLOCK}.get(
            self.scaling, 0)

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
        return 2 * rows if self.is_of_pair else rows

    @property
    def bytes_per_row(self):
        """Bytes that must cross global memory for a row."""
        moved = TENSORS_MOVED[self.regime] * self.hidden * ELEMENT_BYTES[self.dtype]
        of_scale = 1 if self.scaling == "block" else 4
        return moved + self.hidden + of_scale * self.scales if self.scaling else moved

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
    for hidden in MODEL_WIDTHS:
        cases += [Case("forward", "bf16", (rows, hidden)) for rows in (2048, 32768)]
    cases += [Case("forward", "fp32", (262144, 4096))]
    cases += [Case("forward", "fp32", (8192, hidden)) for hidden in (32768, 65536, 131072)]
    for hidden in (4096, 8192):
        cases += [Case("decode", "bf16", (rows, hidden)) for rows in (1, 8, 64, 512)]
    cases += [Case("decode", "bf16", (64, hidden)) for hidden in MODEL_WIDTHS]
    cases += [Case("decode", "bf16", (rows, 65536)) for rows in (1, 16)]
    cases += [Case("forward_3d", "bf16", (27030, 24, 128))]
    cases += [Case("rotation", "bf16", (8192, 32, head_dim)) for head_dim in (64, 128)]
    for hidden in (4096, 8192):
        cases += [Case("residual_add", "bf16", (rows, hidden)) for rows in (64, 4096, 32768)]
    cases += [Case("residual_add", "bf16", (rows, 65536)) for rows in (16, 4096)]
    cases += [Case("residual_add", "bf16", shape) for shape in ((1048576, 128), (32768, 769))]
    cases += [Case("backward", "bf16", (16384, hidden)) for hidden in (1024, 4096, 8192, 32768)]
    for shape in ((131072, 128), (16384, 4096), (8192, 8192)):
        cases += [Case(regime, "bf16", shape) for regime in ("gated", "gated_backward")]
    cases += [Case("gated_first", "bf16", (131072, 128))]
    for name, scaling in SCALING.items():
        step = 2 if scaling == "block" else 1  # of powers of two, from 1024 to 16384
        cases += [Case(name, "bf16", (32768, 1024 << i)) for i in range(0, 5, step)]
        if scaling != "block":
            cases += [Case(name, "bf16", (8192, 49152))]
        cases += [Case("decode_" + name, "bf16", (rows, 4096)) for rows in (1, 16, 64)]
    return cases
