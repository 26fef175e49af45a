"""Four-bit formats against the value tables of their specifications, and their promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from enginechaos.fp4 import (
    BLOCK,
    E2M1_VALUES,
    E4M3_MAX,
    E4M3_VALUES,
    Format,
    e2m1_encode,
    e4m3_encode,
    e8m0_decode,
    e8m0_encode,
    quantize,
    round_trip,
)

# OCP Microscaling Formats v1.0, 5.3.3: sign, two exponent bits of bias 1, one mantissa bit.
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def test_all_sixteen_e2m1_codes() -> None:
    assert E2M1_VALUES[:8].tolist() == E2M1
    assert E2M1_VALUES[8:].tolist() == [-value for value in E2M1]
    assert np.signbit(E2M1_VALUES[8])
    assert e2m1_encode(E2M1_VALUES).tolist() == list(range(16))


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (0.25, 0.0),  # ties go to the even mantissa
        (0.75, 1.0),
        (1.25, 1.0),
        (1.75, 2.0),
        (2.5, 2.0),
        (3.5, 4.0),
        (5.0, 4.0),
        (np.nextafter(0.25, 1), 0.5),
        (np.nextafter(0.25, 0), 0.0),
        (np.nextafter(5.0, 6), 6.0),
        (6.9, 6.0),
        (1e30, 6.0),  # saturates
    ],
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_e2m1_rounds_to_nearest_even_and_saturates(
    value: float, becomes: float, sign: float
) -> None:
    (code,) = e2m1_encode(np.array([sign * value]))
    assert E2M1_VALUES[code] == sign * becomes
    assert np.signbit(E2M1_VALUES[code]) == (sign < 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_e2m1_can_not_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no code"):
        e2m1_encode(np.array([value]))
    with pytest.raises(ValueError, match="NaN or infinity"):
        quantize(np.array([[1.0, value]]), Format.NVFP4)


@pytest.mark.parametrize("values", [np.zeros((3, 0)), np.float64(1.0)])
def test_nothing_to_quantize(values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="nothing to quantize"):
        quantize(values, Format.MXFP4)


@pytest.mark.parametrize(
    ("code", "value"),
    [  # OCP 8-bit Floating Point Specification v1.0, table 2: E4M3
        (0x00, 0.0),
        (0x01, 2.0**-9),  # smallest subnormal
        (0x07, 0.875 * 2.0**-6),  # largest subnormal
        (0x08, 2.0**-6),  # smallest normal
        (0x38, 1.0),
        (0x39, 1.125),
        (0x7E, 448.0),
        (0x7F, np.nan),
        (0x80, -0.0),
        (0xFE, -448.0),
        (0xFF, np.nan),
    ],
)
def test_e4m3_table(code: int, value: float) -> None:
    np.testing.assert_equal(E4M3_VALUES[code], value)


def test_e4m3_has_no_infinity_and_codes_read_back() -> None:
    assert not np.isinf(E4M3_VALUES).any()
    assert np.isnan(E4M3_VALUES).sum() == 2
    codes = np.array([code for code in range(256) if code not in {0x7F, 0xFF}])
    assert e4m3_encode(E4M3_VALUES[codes]).tolist() == codes.tolist()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (464.0, 0x7E),  # would tie with 480, which is NaN's place
        (1e9, 0x7E),
        (np.inf, 0x7E),
        (-np.inf, 0xFE),
        (np.nan, 0x7F),
        (2.0**-10, 0x00),  # ties to even
        (3 * 2.0**-10, 0x02),
        (1.0625, 0x38),
        (1.1875, 0x3A),
    ],
)
def test_e4m3_saturates_and_rounds_to_even(value: float, code: int) -> None:
    assert e4m3_encode(np.array([value])).tolist() == [code]


def test_e8m0_is_a_power_of_two_from_minus_127_to_127() -> None:
    codes = np.arange(256, dtype=np.uint8)
    powers = e8m0_decode(codes)
    assert powers[[0, 1, 127, 128, 254]].tolist() == [2.0**-127, 2.0**-126, 1.0, 2.0, 2.0**127]
    assert np.isnan(powers[255])
    assert e8m0_encode(np.arange(-127.0, 128.0)).tolist() == codes[:255].tolist()
    assert e8m0_encode(np.array([-1000.0, 1000.0])).tolist() == [0, 254]


def test_mxfp4_scale_is_the_largest_power_of_two_below_a_quarter_of_the_block() -> None:
    """MX v1.0, 6.3: what lies between 6 and 8 times the scale saturates."""
    block = np.zeros((1, 64))
    block[0, 0], block[0, 1] = 7.9, 0.5
    block[0, 32] = 4.0
    stored = quantize(block, Format.MXFP4)
    assert stored.scales is not None
    assert stored.scales.tolist() == [[127, 127]]
    assert stored.values()[0, [0, 1, 32]].tolist() == [6.0, 0.5, 4.0]
    assert round_trip(np.full((1, 32), 3.99), Format.MXFP4)[0, 0] == 3.0


def test_nvfp4_gives_its_largest_block_the_largest_scale() -> None:
    values = np.zeros((1, 32), np.float32)
    values[0, 0], values[0, 16] = 6.0, 0.75
    stored = quantize(values, Format.NVFP4)
    assert stored.scales is not None
    assert E4M3_VALUES[stored.scales].tolist() == [[448.0, 56.0]]
    np.testing.assert_allclose(stored.values(), values, rtol=1e-6)


def test_an_outlier_crushes_a_tensor_scale_and_spares_other_blocks() -> None:
    values = np.full((4, 64), 0.1, np.float32)
    values[0, 0] = 60.0
    assert np.count_nonzero(round_trip(values, Format.TENSOR)) == 1
    for fmt, size in ((Format.NVFP4, 16), (Format.MXFP4, 32)):
        kept = round_trip(values, fmt)
        np.testing.assert_allclose(kept[1:], 0.1, rtol=0.26)
        assert np.count_nonzero(kept[0] == 0) == size - 1


def test_all_zeros_and_ragged_rows() -> None:
    for fmt in Format:
        assert not round_trip(np.zeros((2, 40), np.float32), fmt).any()
        ragged = np.linspace(-1, 1, 3 * 5 * 21, dtype=np.float32).reshape(3, 5, 21)
        assert round_trip(ragged, fmt).shape == ragged.shape


tensors = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.integers(1, 70)),
    elements=st.floats(-1000, 1000, width=32, allow_subnormal=False),
)


@settings(deadline=None, max_examples=60)
@given(values=tensors, fmt=st.sampled_from(list(Format)))
def test_error_is_bounded_by_each_block(values: np.ndarray, fmt: Format) -> None:
    """Steps are two at most above half the largest element, so no error exceeds a step's half.

    MXFP4 may saturate by two steps (8 to 6). An NVFP4 scale is off by a sixteenth at most, and by
    half its smallest step below that; the block saturates by six times as much.
    """
    stored = quantize(values, fmt)
    scales = np.broadcast_to(stored.block_scales(), stored.codes.shape)
    width = values.shape[1]
    per_value = scales.reshape(len(values), -1)[:, :width]
    error = np.abs(values - stored.values())
    bound = {Format.TENSOR: 1.0, Format.MXFP4: 2.0, Format.NVFP4: 1.0}[fmt] * per_value
    if fmt is Format.NVFP4:
        bound = np.maximum(bound, 6 * 2.0**-10 * float(stored.tensor_scale))
    assert (error <= bound * (1 + 1e-5) + 1e-30).all()


@settings(deadline=None, max_examples=60)
@given(values=tensors, fmt=st.sampled_from(list(Format)))
def test_a_second_time_changes_nothing(values: np.ndarray, fmt: Format) -> None:
    """But for NVFP4 blocks so small beside the largest that their scale is subnormal."""
    stored = quantize(values, fmt)
    once = stored.values()
    if stored.scales is not None and fmt is Format.NVFP4:
        assume(((stored.scales >= 0x08) | (stored.scales == 0)).all())
    np.testing.assert_allclose(round_trip(once, fmt), once, rtol=1e-6, atol=0)


def test_blocks_are_as_published() -> None:
    assert BLOCK == {Format.NVFP4: 16, Format.MXFP4: 32, Format.TENSOR: None}
    assert E4M3_MAX == 448.0
