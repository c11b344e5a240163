#!/usr/bin/env python3
"""Log-probabilities of llama.cpp with an f32 KV cache and without flash attention, for the tiny models.

  f32_logprobs.py LLAMA_SERVER MODEL_FOLDER

llama.cpp's default rounds keys, values and queries to f16, which moves the logits of these models by up
to 6e-3; in this configuration nothing but the order of f32 additions differs, so the test can be strict.
Writes tiny/NAME.pK.logprobs.f32 (little-endian f32, one per vocabulary entry) beside this file.
"""
import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "tiny"
PORT = 18099


def ask(prompt: list[int], vocabulary: int) -> np.ndarray:
    body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": vocabulary, "cache_prompt": False}
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(request))
    out = np.full(vocabulary, np.nan, dtype=np.float32)
    for entry in answer["completion_probabilities"][0]["top_logprobs"]:
        out[entry["id"]] = entry["logprob"]
    assert not np.isnan(out).any()
    return out


def main() -> None:
    server, folder = sys.argv[1], Path(sys.argv[2])
    for golden in sorted(HERE.glob("*.jsonl")):
        name = golden.stem
        process = subprocess.Popen(
            [server, "-m", folder / f"{name}.F32.gguf", "-ctk", "f32", "-ctv", "f32", "-fa", "off", "-c", "512",
             "-np", "1", "--port", str(PORT), "--no-warmup"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health")
                    break
                except OSError:
                    time.sleep(0.2)
            for k, line in enumerate(golden.read_text().splitlines()):
                entry = json.loads(line)
                ask(entry["prompt_ids"], entry["n_vocab"]).tofile(HERE / f"{name}.p{k}.logprobs.f32")
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
