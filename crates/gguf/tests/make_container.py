"""Writes the files in tests/data/container with other people's tools, for the tests in container.rs.

    pip install gguf numpy
    python3 make_container.py [PATH/llama-gguf-split]

all_types.gguf        every value type, nested arrays, several formats, alignment 64 (PyPI gguf)
big_endian.gguf       a big-endian file (PyPI gguf)
split-0000?-of-00003  three parts (llama.cpp's llama-gguf-split, when its path is given)
"""

import pathlib
import subprocess
import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFValueType, GGUFWriter

out = pathlib.Path(__file__).parent / "data" / "container"
out.mkdir(parents=True, exist_ok=True)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def raw(count, seed):
    """Bytes that the test computes again."""
    return ((np.arange(count) * 7 + seed * 13) % 251).astype(np.uint8)


def all_types():
    writer = GGUFWriter(out / "all_types.gguf", "test")
    writer.add_custom_alignment(64)
    writer.data_alignment = 64
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 4000000000)
    writer.add_int32("i32", -2000000000)
    writer.add_uint64("u64", 2**64 - 2)
    writer.add_int64("i64", -(2**63))
    writer.add_float32("f32", 1.5e-5)
    writer.add_float64("f64", -2.25e300)
    writer.add_bool("true", True)
    writer.add_bool("false", False)
    writer.add_key_value("empty", "", GGUFValueType.STRING)  # add_string would leave it out
    writer.add_string("string", "naïve ▁ 日本語 🙂\nline")
    arrays = {
        "u8s": (GGUFValueType.UINT8, [0, 1, 255]),
        "i8s": (GGUFValueType.INT8, [-128, 127]),
        "u16s": (GGUFValueType.UINT16, [0, 65535]),
        "i16s": (GGUFValueType.INT16, [-32768, 32767]),
        "u32s": (GGUFValueType.UINT32, [1, 2, 4294967295]),
        "i32s": (GGUFValueType.INT32, [-1, 0, 1]),
        "u64s": (GGUFValueType.UINT64, [2**63, 7]),
        "i64s": (GGUFValueType.INT64, [-(2**62), 7]),
        "f32s": (GGUFValueType.FLOAT32, [0.0, -0.5, 3.25]),
        "f64s": (GGUFValueType.FLOAT64, [1e-300, 1.0]),
        "bools": (GGUFValueType.BOOL, [True, False, True]),
        "strings": (GGUFValueType.STRING, ["", "a", "▁the", b"\xff\xfe"]),
    }
    for key, (kind, values) in arrays.items():
        writer.add_key_value(key, values, GGUFValueType.ARRAY, sub_type=kind)
    writer.add_array("nested", [[1, 2, 3], [4], [5, 6]])
    writer.add_array("nested.strings", [["a", "b"], ["c"]])

    writer.add_tensor("norm.weight", np.arange(5, dtype=np.float32) * 0.5)
    writer.add_tensor("half.weight", (np.arange(12) * 0.25).astype(np.float16).reshape(3, 4))
    # The raw shape of quantised data is rows of bytes: 2 rows of 64 values, 34 bytes for each 32.
    writer.add_tensor("q8.weight", raw(136, 2).reshape(2, 68), raw_dtype=GGMLQuantizationType.Q8_0)
    writer.add_tensor("q4k.weight", raw(432, 3).reshape(1, 3, 1, 144), raw_dtype=GGMLQuantizationType.Q4_K)
    writer.add_tensor("ids", np.array([[1, -2], [3, -4]], dtype=np.int32))
    finish(writer)


def big_endian():
    writer = GGUFWriter(out / "big_endian.gguf", "test", endianess=GGUFEndian.BIG)
    writer.add_tensor("norm.weight", np.arange(4, dtype=np.float32))
    finish(writer)


def split(tool):
    whole = out / "whole.gguf"
    writer = GGUFWriter(whole, "test")
    writer.add_string("general.name", "split test")
    for index in range(5):
        writer.add_tensor(f"tensor.{index}", np.full((2, 3), index, dtype=np.float32))
    finish(writer)
    subprocess.run([tool, "--split", "--split-max-tensors", "2", whole, out / "split"], check=True)
    whole.unlink()


all_types()
big_endian()
if len(sys.argv) > 1:
    split(sys.argv[1])
