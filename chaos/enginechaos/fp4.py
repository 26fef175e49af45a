"""What a tensor becomes in four bits: NVFP4, MXFP4 and a naive format with one scale a tensor.

Element and scale formats follow the OCP Microscaling Formats (MX) Specification v1.0, section 5.3
(FP4 E2M1: rounding to nearest, ties to even, saturating) and 5.4.1 (E8M0 scales), and the OCP 8-bit
Floating Point Specification (E4M3). NVFP4 is NVIDIA's: blocks of 16, an E4M3 scale each, and one
float32 scale a tensor that makes the largest block scale 448.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.uint8]

E8M0_BIAS = 127
_E2M1_EXPONENT_OF_MAX = 2  # 6 = 1.5 * 2**2


class Format(StrEnum):
    """How a tensor's scales are laid out; the elements are E2M1 in all of them."""

    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    TENSOR = "tensor"


BLOCK: dict[Format, int | None] = {Format.NVFP4: 16, Format.MXFP4: 32, Format.TENSOR: None}


def _minifloat(exponent_bits: int, mantissa_bits: int, bias: int) -> NDArray[np.float64]:
    """The magnitude of each code without its sign: subnormals first, no infinities."""
    codes = np.arange(1 << (exponent_bits + mantissa_bits))
    exponent = codes >> mantissa_bits
    fraction = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    leading = np.where(exponent == 0, 0.0, 1.0)
    magnitudes: NDArray[np.float64] = (leading + fraction) * np.exp2(
        np.maximum(exponent, 1).astype(np.float64) - bias
    )
    return magnitudes


_E2M1 = _minifloat(2, 1, bias=1)
_E4M3 = _minifloat(4, 3, bias=7)[:-1]  # the last code is NaN, not 480

E2M1_MAX = float(_E2M1[-1])
E4M3_MAX = float(_E4M3[-1])

E2M1_VALUES: NDArray[np.float64] = np.concatenate([_E2M1, -_E2M1])
"""Value of each of the 16 codes; code 8 is minus zero."""
E4M3_VALUES: NDArray[np.float64] = np.concatenate([_E4M3, [np.nan], -_E4M3, [np.nan]])
"""Value of each of the 256 codes; 0x7F and 0xFF are NaN, there are no infinities."""


def _nearest(magnitudes: NDArray[np.float64], wanted: Floats) -> NDArray[np.intp]:
    """Index of the nearest magnitude, ties to the even one; above the last, the last.

    Codes rise with magnitude and their lowest bit is the mantissa's, so the even index of the two
    is the one with the even mantissa.
    """
    middles = (magnitudes[1:] + magnitudes[:-1]) / 2
    below = np.searchsorted(middles, wanted, side="left")  # a tie goes to the lower index
    above = np.searchsorted(middles, wanted, side="right")
    return np.where(below % 2 == 0, below, above)


def e2m1_encode(values: Floats) -> Codes:
    """E2M1 codes (0 to 15) of finite values, saturating at 6.

    Raises ValueError for NaN or infinity: the format has neither, and the specification leaves
    their conversion open.
    """
    if not np.isfinite(values).all():
        raise ValueError("E2M1 has no code for NaN or infinity")
    codes = _nearest(_E2M1, np.abs(values)) + 8 * np.signbit(values)
    encoded: Codes = codes.astype(np.uint8)
    return encoded


def e4m3_encode(values: Floats) -> Codes:
    """E4M3 codes, saturating at 448 (infinity too); NaN stays NaN."""
    wanted = np.asarray(values, dtype=np.float64)
    missing = np.isnan(wanted)
    codes = _nearest(_E4M3, np.abs(np.where(missing, 0.0, wanted))) + 128 * np.signbit(wanted)
    return np.where(missing, 0x7F, codes).astype(np.uint8)


def e8m0_decode(codes: Codes) -> NDArray[np.float64]:
    """Scale of each E8M0 code: 2**(code - 127), NaN for 255; there is no zero and no sign."""
    powers = np.exp2(codes.astype(np.float64) - E8M0_BIAS)
    return np.where(codes == 255, np.nan, powers)


def e8m0_encode(exponents: Floats) -> Codes:
    """Codes of the scales 2**exponent, clamped to 2**-127 .. 2**127."""
    clamped = np.clip(exponents, -E8M0_BIAS, E8M0_BIAS) + E8M0_BIAS
    return clamped.astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Quantized:
    """A tensor in four bits: element codes by block, the blocks' scale codes, one tensor scale.

    `codes` is (rows, blocks, block size), padded with zeros; `scales` is (rows, blocks) of E4M3
    (NVFP4) or E8M0 (MXFP4) codes, and absent where `tensor_scale` is the only one.
    """

    format: Format
    shape: tuple[int, ...]
    codes: Codes
    scales: Codes | None
    tensor_scale: np.float32

    def block_scales(self) -> NDArray[np.float64]:
        """What each block's elements are multiplied by, broadcastable over `codes`."""
        if self.scales is None:
            return np.full((1, 1, 1), float(self.tensor_scale))
        table = E4M3_VALUES[self.scales] if self.format is Format.NVFP4 else None
        decoded = e8m0_decode(self.scales) if table is None else table
        scaled: NDArray[np.float64] = decoded[:, :, None] * float(self.tensor_scale)
        return scaled

    def values(self) -> NDArray[np.float32]:
        """The tensor an engine computes with, in its original shape."""
        padded = E2M1_VALUES[self.codes] * self.block_scales()
        width = self.shape[-1]
        flat = padded.reshape(padded.shape[0], -1)[:, :width]
        return flat.reshape(self.shape).astype(np.float32)


def _blocks(values: Floats, size: int | None) -> NDArray[np.float64]:
    """(rows, blocks, size) along the last axis, the last block filled up with zeros."""
    rows = np.asarray(values, dtype=np.float64).reshape(-1, values.shape[-1])
    size = size or rows.shape[1]
    short = -rows.shape[1] % size
    return np.pad(rows, ((0, 0), (0, short))).reshape(len(rows), -1, size)


def quantize(values: Floats, fmt: Format) -> Quantized:
    """Quantize a tensor of one or more axes; blocks run along the last one (a weight's inputs).

    Raises ValueError for a tensor that is empty, has no axis, or holds NaN or infinity.
    """
    if not values.size or not values.ndim:
        raise ValueError("nothing to quantize: the tensor has no elements or no axis")
    if not np.isfinite(values).all():
        raise ValueError("can't quantize NaN or infinity: E2M1 has no code for them")
    blocks = _blocks(values, BLOCK[fmt])
    largest = np.abs(blocks).max(axis=2)
    scales: Codes | None = None
    tensor_scale = np.float32(1.0)
    if fmt is Format.NVFP4:
        tensor_scale = np.float32(largest.max() / (E2M1_MAX * E4M3_MAX)) or np.float32(1.0)
        scales = e4m3_encode(largest / E2M1_MAX / float(tensor_scale))
    elif fmt is Format.MXFP4:
        # MX v1.0, 6.3: the power of two of the block's largest, less that of the largest element.
        exponents = np.frexp(largest)[1] - 1 - _E2M1_EXPONENT_OF_MAX
        scales = e8m0_encode(np.where(largest > 0, exponents, -E8M0_BIAS).astype(np.float64))
    else:
        tensor_scale = np.float32(largest.max() / E2M1_MAX) or np.float32(1.0)
    bare = Quantized(fmt, values.shape, np.zeros(blocks.shape, np.uint8), scales, tensor_scale)
    divisor = bare.block_scales()
    # A block whose scale rounds to zero is lost: its elements become zero, as in hardware.
    ratios = np.divide(blocks, divisor, out=np.zeros_like(blocks), where=divisor != 0)
    return Quantized(fmt, values.shape, e2m1_encode(ratios), scales, tensor_scale)


def round_trip(values: Floats, fmt: Format) -> NDArray[np.float32]:
    """The tensor after quantization: what weight-only engines multiply with."""
    return quantize(values, fmt).values()
