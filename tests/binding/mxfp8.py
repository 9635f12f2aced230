"""8 bits with powers of two as scales, by another way than the library's. Needs PyTorch."""

import torch

MOST = 448.0  # the largest number of e4m3


def quantised(norm, columns):
    """The codes of a norm, and for each of its blocks of columns a byte, in fp64."""
    blocks = norm.double().unflatten(-1, (-1, columns))
    mantissa, exponent = torch.frexp(blocks.abs().amax(-1) / MOST)
    exponents = torch.where(mantissa == 0.5, exponent - 1, exponent).clamp(-127, 127)  # rounded up
    codes = (blocks / torch.exp2(exponents.double())[..., None]).clamp(-MOST, MOST)
    return codes.float().to(torch.float8_e4m3fn).flatten(-2), (exponents + 127).to(torch.uint8)


def in_tiles(scales):
    """(..., blocks) as a matrix product of Blackwell takes it: in tiles of 128 rows and 4 blocks."""
    scales = scales.reshape(-1, scales.shape[-1])
    rows, blocks = scales.shape
    columns = (blocks + 3) // 4
    tiles = scales.new_zeros((rows + 127) // 128 * columns * 512)
    row, block = torch.meshgrid(torch.arange(rows), torch.arange(blocks), indexing="ij")
    at = (row // 128 * columns + block // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + block % 4
    tiles[at.to(scales.device)] = scales
    return tiles
