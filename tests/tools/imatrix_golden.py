#!/usr/bin/env python3
"""Writes tests/golden/imatrix/: some numbers of the importance matrices that llama.cpp makes.

  imatrix_golden.py LLAMA_IMATRIX TEST_DATA

TEST_DATA is the folder that test_data.py writes. Of each tensor all counts are kept, and of the sums every 61st.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf

ROOT = Path(__file__).parents[2]
EVERY = 61

tool, data = sys.argv[1], Path(sys.argv[2]).resolve()
MODELS = {
    "tiny-deepseek2": (data / "tiny/tiny-deepseek2.F32.gguf", 64, 4),
    "tiny-qwen3moe": (data / "tiny/tiny-qwen3moe.F32.gguf", 64, 4),
    "stories15M": (ROOT / "models/stories15M-q8_0.gguf", 128, 3),
}

for name, (model, context, chunks) in MODELS.items():
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/imatrix.gguf"
        text = ROOT / "tests/golden/moby_120k.txt"
        flags = ["-c", str(context), "--chunks", str(chunks)]
        subprocess.run([tool, "-m", model, "-f", text, "-o", out, *flags], check=True, capture_output=True)
        reader = gguf.GGUFReader(out)
        values = {tensor.name: tensor.data.reshape(-1).tolist() for tensor in reader.tensors}
    tensors = {}
    for key, sums in values.items():
        if key.endswith(".in_sum2"):
            tensor = key.removesuffix(".in_sum2")
            kept = [float(f"{value:.6g}") for value in sums[::EVERY]]
            tensors[tensor] = {"values": len(sums), "counts": values[f"{tensor}.counts"], "sums": kept}
    golden = {"context": context, "chunks": chunks, "every": EVERY, "tensors": tensors}
    path = ROOT / f"tests/golden/imatrix/{name}.json"
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(tensors.items()))
    head = json.dumps({key: golden[key] for key in ["context", "chunks", "every"]})[:-1]
    path.write_text(f'{head}, "tensors": {{\n{lines}\n}}}}\n')
