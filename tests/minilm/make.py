#!/usr/bin/env python3
"""The vectors of all-MiniLM-L6-v2 by Hugging Face transformers: what tests of the real model are held against.

  make.py      (needs torch and transformers, and npm)

Writes vectors.json: for each text its token ids, and its vector as sentence-transformers defines the model: the mean of
the last hidden states, scaled to length 1.
"""
import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
import minilm  # noqa: E402

TEXTS = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The girl is carrying a baby.",
    "How do I reset my password?",
    "Größenwahn & Übermut: naïve café, 東京 tower — 3.14!",
    "x",
    "The quick brown fox jumps over the lazy dog. " * 9,
    " ".join(f"Sentence number {i} is about nothing in particular." for i in range(30)),
]


def main() -> None:
    tensors, config, tokenizer = minilm.fetch()
    model = BertModel(BertConfig(**config), add_pooling_layer=False).eval()
    state = {name: torch.from_numpy(values.copy()).float() for name, values in tensors.items() if minilm.tensor_name(name)}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and all("position_ids" in name for name in missing), (missing, unexpected)
    words = Tokenizer.from_str(json.dumps(tokenizer))
    words.no_padding()
    words.no_truncation()
    out = []
    for text in TEXTS:
        ids = words.encode(text).ids
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
        vector = torch.nn.functional.normalize(hidden.mean(0), dim=0)
        out.append({"text": text, "ids": ids, "vector": [round(x, 8) for x in vector.tolist()]})
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in out)
    (HERE / "vectors.json").write_text(f"[\n{lines}\n]\n")


main()
