#!/usr/bin/env python3
"""Trains a small BPE model over characters, as Gemma 4 has it, with Hugging Face tokenizers and encodes texts with it.

    make_spaced_bpe_vectors.py

Writes data/spaced_bpe.json: the vocabulary as a GGUF file has it (tokens, kinds, merges) and texts with the ids that
tokenizers gives them. Needs PyPI tokenizers.
"""

import json
import pathlib
import random

from tokenizers import Tokenizer, models, normalizers, trainers

HERE = pathlib.Path(__file__).parent
SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.\n",
    "She sells sea shells by the sea shore; the shells she sells are surely seashells.\n\n",
    "Größe ist nicht alles, aber ohne Größe ist manches nichts.\n\n\n",
    "def f(x):\n    return x\n\n        if x:\n            pass\n",
    "東京は日本の首都です。京都は昔の首都でした。\n",
    "Peter Piper picked a peck of pickled peppers, 1 2 3 4 5 times.\n",
]
TEXTS = [
    "The quick brown fox", " leading and   many    spaces ", "a", "", " ", "   ", "xyz", "Größe", "東京は日本の首都です。",
    "한국어 is bytes", "\U0001f600\U0001f600 twice", "shells▁she▁sells", "line\nbreak\n", "\n\n\n\n\n", "a\n\n\nb", " \n \n ",
    "def f(x):\n        return x", "tabs\tand\r\n", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "seashellsseashells", "ß京ß\u0301",
]


def main():
    random.seed(7)
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    spaced = normalizers.Replace(" ", "▁")
    trained = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    trained.normalizer = spaced
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special + bytes_, show_progress=False)
    trained.train_from_iterator(SENTENCES * 3, trainer)
    model = json.loads(trained.to_str())["model"]
    vocabulary, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    # The same without special tokens, which texts must not have.
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = spaced
    letters = "Theasl dogßé京\n  xqZ\U0001f600"
    texts = TEXTS + ["".join(random.choices(letters, k=random.randint(1, 40))) for _ in range(60)]
    texts += ["".join(random.choices(SENTENCES, k=3))[random.randint(0, 9):] for _ in range(12)]
    tokens = sorted(vocabulary, key=vocabulary.get)
    data = {
        "tokens": tokens,
        # The numbers are those of GGUF: control, unknown, byte, normal.
        "kinds": [2 if token == "<unk>" else 3 if token in special else 6 if token in bytes_ else 1 for token in tokens],
        "merges": [" ".join(merge) for merge in merges],
        "texts": [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids} for text in texts],
    }
    (HERE / "data/spaced_bpe.json").write_text(json.dumps(data, ensure_ascii=True, indent=0) + "\n")


main()
