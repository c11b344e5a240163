"""Checks a file that our writer wrote with another reader, PyPI's gguf.

    pip install gguf
    cargo test -p gleed-gguf --test writing a_file_for_another_reader
    python3 crates/gguf/tests/read_back.py target/tmp/read_back.gguf

The test `a_file_for_another_reader` in writing.rs leaves the file in cargo's folder for such files,
`tmp` in the target folder. Prints one line and exits with 0 when all is as expected.
"""

import sys

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType

reader = GGUFReader(sys.argv[1])

scalars = {
    "GGUF.version": (GGUFValueType.UINT32, 3),
    "general.architecture": (GGUFValueType.STRING, "test"),
    "general.alignment": (GGUFValueType.UINT32, 128),
    "u8": (GGUFValueType.UINT8, 200),
    "i8": (GGUFValueType.INT8, -100),
    "u16": (GGUFValueType.UINT16, 60000),
    "i16": (GGUFValueType.INT16, -30000),
    "u32": (GGUFValueType.UINT32, 4000000000),
    "i32": (GGUFValueType.INT32, -2000000000),
    "u64": (GGUFValueType.UINT64, 2**64 - 2),
    "i64": (GGUFValueType.INT64, -(2**63)),
    "f32": (GGUFValueType.FLOAT32, 0.15625),
    "f64": (GGUFValueType.FLOAT64, -2.25e300),
    "bool": (GGUFValueType.BOOL, True),
    "string": (GGUFValueType.STRING, "naïve ▁ 日本語 🙂"),
}
arrays = {
    "i32s": ([GGUFValueType.INT32], [-1, 0, 1]),
    "f32s": ([GGUFValueType.FLOAT32], [0.5, -0.25]),
    "bools": ([GGUFValueType.BOOL], [True, False]),
    "strings": ([GGUFValueType.STRING], ["", "▁the", "x"]),
    # This reader flattens nested arrays.
    "nested": ([GGUFValueType.ARRAY, GGUFValueType.UINT16], [1, 2, 3]),
}
for key, (kind, value) in scalars.items():
    field = reader.get_field(key)
    assert field.types == [kind] and field.contents() == value, (key, field.types, field.contents())
for key, (kinds, value) in arrays.items():
    field = reader.get_field(key)
    assert field.types == [GGUFValueType.ARRAY, *kinds], (key, field.types)
    assert field.contents() == value, (key, field.contents())
# The reader adds its own three fields for the header.
assert len(reader.fields) == len(scalars) + len(arrays) + 2, list(reader.fields)

norm, down, last = reader.tensors
assert norm.name == "norm.weight" and norm.tensor_type == GGMLQuantizationType.F32
assert norm.shape.tolist() == [5, 3] and norm.data.shape == (3, 5)
assert norm.data.flatten().tolist() == [i - 3.5 for i in range(15)]
assert down.name == "blk.0.ffn_down.weight" and down.tensor_type == GGMLQuantizationType.Q6_K
assert down.shape.tolist() == [256, 3] and down.data.shape == (3, 210)
assert (down.data.flatten() == np.arange(630) * 5 % 253).all()
assert last.name == "last.bias" and last.data.tolist() == [1.0]
assert all(tensor.data_offset % 128 == 0 for tensor in reader.tensors)
print(f"{sys.argv[1]}: {len(scalars) + len(arrays)} keys and 3 tensors are as written")
