#!/usr/bin/env python3
"""Makes what the tests need and what is too large for the repository.

  test_data.py FOLDER      (after `gleed pull smollm2-135m` into FOLDER/cache)
"""
import subprocess
import sys
from pathlib import Path

import tiny_models

folder = Path(sys.argv[1])
root = Path(__file__).parents[2]
smollm2 = next(folder.glob("cache/**/SmolLM2-135M-Instruct.Q4_1.gguf"))
tiny_models.write_all(folder / "tiny", smollm2)
subprocess.check_call([sys.executable, root / "crates/tokenizer/tests/fetch_vocabs.py", folder / "vocabs"])
