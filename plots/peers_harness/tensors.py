"""The tensors of a case, in as many sets as it takes to keep the L2 cache cold."""

import torch

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

MOST_SETS = 16384
GIVEN_SCALE = 0.01  # some norms are beyond what it can hold
_ALIGNMENT = 256  # bytes; every tensor of every set starts at a multiple


def sets_for_cold_cache(bytes_of_one_set, l2_bytes):
    """Sets that together are four times as large as the L2 cache; at least two."""
    return min(max(-(-4 * l2_bytes // max(bytes_of_one_set, 1)), 2), MOST_SETS)


class Tensors:
    """x, weight, y and whatever else the case needs, once for each set.

    Each of `x`, `weight`, `y`, `residual`, `dy`, `z`, `dz` and `scale` is a list over the sets; all
    but the first three are empty where the case has none. `tables` are the cosines and sines of
    every set, (tokens, hidden / 2) in fp32, where heads are turned. An element of x, weight or y is itself a
    list: one tensor, and two in forward_3d, which are q and k. Nobody's output is shared: `y` is for
    implementations that can write where they are told, the others allocate. A `scale` is an input
    where it is given.
    """

    def __init__(self, case, device, l2_bytes, seed=1):
        self.case = case
        self.dtype = DTYPES[case.dtype]
        self._device = device
        self._generator = torch.Generator(device).manual_seed(seed)
        self.sets = sets_for_cold_cache(case.bytes_moved, l2_bytes)
        parts = 2 if case.is_of_pair else 1
        self.x = self._per_set(case.shape, parts)
        self.weight = self._per_set((case.hidden,), parts)
        self.y = self._per_set(case.shape, parts, torch.float8_e4m3fn if case.scaling else None)
        self.residual = []
        self.dy, self.z, self.dz = [], [], []
        self.scale = []
        if case.scaling:
            shape = {"given": (1,), "row": (case.rows,)}.get(case.scaling, (case.rows, case.scales))
            of_scale = torch.uint8 if case.scaling == "block" else torch.float32
            self.scale = [parts[0] for parts in self._per_set(shape, 1, of_scale)]
        if case.has_residual:
            self.residual = [parts[0] for parts in self._per_set(case.shape, 1)]
        if case.is_backward:
            self.dy = [parts[0] for parts in self._per_set(case.shape, 1)]
        if case.is_gated:
            self.z = [parts[0] for parts in self._per_set(case.shape, 1)]
        if case.is_gated and case.is_backward:
            self.dz = [parts[0] for parts in self._per_set(case.shape, 1)]
        self.tables = []
        if case.is_turned:  # each token's angles are those of its number
            steps = torch.arange(0, case.hidden, 2, device=device) / case.hidden
            angles = torch.arange(case.shape[0], device=device)[:, None] * 10000.0**-steps
            self.tables = [angles.cos(), angles.sin()]
        self._fill()
        # An operation may work in place; the checks begin with the same input each time.
        self._mutable = [self.x[0][0], *self.residual[:1]] if self.residual else []
        self._originals = [tensor.clone() for tensor in self._mutable]

    def _per_set(self, shape, parts, dtype=None):
        """A list over the sets of lists of `parts` tensors, all in one block of memory."""
        dtype = dtype or self.dtype
        size = torch.empty((), dtype=dtype).element_size()
        for extent in shape:
            size *= extent
        stride = -(-size // _ALIGNMENT) * _ALIGNMENT
        block = torch.zeros(self.sets, parts, stride, dtype=torch.uint8, device=self._device)
        return [[block[i, j, :size].view(dtype).view(shape) for j in range(parts)]
                for i in range(self.sets)]

    def _random_rows(self, tensor):
        """Normal numbers; each row has a scale of its own, from 2^-4 to 2^3."""
        tensor.normal_(generator=self._generator)
        exponents = torch.randint(
            -4, 4, (*tensor.shape[:-1], 1), device=self._device, generator=self._generator)
        tensor.mul_(torch.exp2(exponents.float()).to(self.dtype))

    def _fill(self):
        if self.case.scaling == "given":
            for scale in self.scale:
                scale.fill_(GIVEN_SCALE)
        for i in range(self.sets):
            if i > 0 and self.sets > 64:  # thousands of tiny sets: copies of the first will do
                for mine, first in zip(self.x[i] + self.weight[i], self.x[0] + self.weight[0]):
                    mine.copy_(first)
                continue
            for x, weight in zip(self.x[i], self.weight[i]):
                self._random_rows(x)
                weight.uniform_(-1, 1, generator=self._generator)
                weight.add_(torch.where(weight < 0, -0.5, 0.5).to(self.dtype))
            for other in self.residual[i : i + 1] + self.dy[i : i + 1] + self.z[i : i + 1]:
                self._random_rows(other)

    def restore(self):
        """Gives set 0 its inputs back."""
        for tensor, original in zip(self._mutable, self._originals):
            tensor.copy_(original)

    def is_input(self, tensor):
        """Whether a tensor, which an operation returned, is also one that it reads."""
        return any(tensor.data_ptr() == mine.data_ptr() for mine in self._mutable)
