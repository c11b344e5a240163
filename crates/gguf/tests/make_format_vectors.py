"""Writes tests/data/formats/: random blocks of every format and what PyPI `gguf` decodes them to, and
random values and what it encodes them to.

Run from the crate's folder: python3 tests/make_format_vectors.py

NAME.blocks and NAME.values: raw blocks, and their values (f32). encode.values: the input of every
NAME.encoded, for the formats that `gguf` can encode. Every byte of a block is random, except that
half-precision scales are finite. Q8_K is decoded here, because `gguf` does not know how.
"""

import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

OUT = "tests/data/formats"
BLOCKS = 8

# Where the half-precision numbers of each block are (bytes). IQ1_M spreads its own over four words.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ1_S: [0], Type.IQ1_M: [], Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0],
    Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ4_NL: [0], Type.IQ4_XS: [0],
    Type.TQ1_0: [52], Type.TQ2_0: [64], Type.MXFP4: [],
}  # fmt: skip
ENCODED = [Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0,
           Type.TQ1_0, Type.TQ2_0, Type.MXFP4]  # fmt: skip
PLAIN = {
    Type.I8: np.int8, Type.I16: np.int16, Type.I32: np.int32, Type.I64: np.int64, Type.F64: np.float64,
}  # fmt: skip


def write(name: str, array: np.ndarray) -> None:
    with open(f"{OUT}/{name}", "wb") as out:
        out.write(np.ascontiguousarray(array).tobytes())


def blocks_of(kind: Type, rng: np.random.Generator) -> np.ndarray:
    """BLOCKS random blocks, one a row, whose scales are finite."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = rng.normal(0, 0.05, BLOCKS).astype(np.float16)
        halves[0] = np.float16(6e-8)  # the smallest there is
        halves[1] = np.float16(-65504)  # the largest
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(BLOCKS, 2)
    if kind == Type.IQ1_M:
        blocks[:, 55] &= 0xBF  # clears the top exponent bit of the scattered scale: no infinity
    if kind == Type.MXFP4:
        blocks[:, 0] = [0, 1, 2, 120, 127, 130, 250, 251]
    return blocks


def q8_k(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    blocks = rng.integers(0, 256, (BLOCKS, 292), dtype=np.uint8)
    scales = rng.normal(0, 0.05, BLOCKS).astype(np.float32)
    blocks[:, :4] = scales.view(np.uint8).reshape(BLOCKS, 4)
    return blocks, scales[:, None] * blocks[:, 4:260].view(np.int8).astype(np.float32)


def values_to_encode(rng: np.random.Generator) -> np.ndarray:
    """Rows of 256: ordinary weights, heavy tails, constants, zeros, large and small values, ties."""
    rows = [
        rng.normal(0, 0.02, 256),
        rng.standard_t(2, 256),
        np.full(256, 0.37),
        np.full(256, -1.5),
        np.zeros(256),
        rng.uniform(-3e4, 3e4, 256),
        rng.normal(0, 1e-6, 256),
        rng.integers(-8, 9, 256) / 4,
        np.where(rng.random(256) < 0.9, 0.0, rng.normal(0, 1, 256)),
        rng.uniform(0.5, 1.0, 256),
    ]
    return np.array(rows, dtype=np.float32)


def main() -> None:
    os.makedirs(OUT, exist_ok=True)
    rng = np.random.default_rng(7)
    for kind in HALVES:
        blocks = blocks_of(kind, rng)
        write(f"{kind.name}.blocks", blocks)
        write(f"{kind.name}.values", gguf.quants.dequantize(blocks, kind))
    blocks, values = q8_k(rng)
    write("Q8_K.blocks", blocks)
    write("Q8_K.values", values)
    # Every half-precision and bfloat16 exponent and sign, with random mantissas.
    halves = rng.integers(0, 65536, 256, dtype=np.uint16)
    for kind in [Type.F16, Type.BF16]:
        write(f"{kind.name}.blocks", halves)
        write(f"{kind.name}.values", gguf.quants.dequantize(halves.view(np.uint8), kind))
    floats = rng.normal(0, 1, 64).astype(np.float32)
    write("F32.blocks", floats)
    write("F32.values", floats)
    for kind, numpy_type in PLAIN.items():
        if kind == Type.F64:
            numbers = rng.normal(0, 100, 64)
        else:
            limits = np.iinfo(numpy_type)
            numbers = rng.integers(limits.min, limits.max, 64, dtype=numpy_type, endpoint=True)
        write(f"{kind.name}.blocks", numbers)
        write(f"{kind.name}.values", numbers.astype(np.float32))
    values = values_to_encode(rng)
    write("encode.values", values)
    for kind in ENCODED:
        write(f"{kind.name}.encoded", gguf.quants.quantize(values, kind))


main()
