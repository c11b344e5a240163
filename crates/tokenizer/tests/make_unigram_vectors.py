#!/usr/bin/env python3
"""Trains a small Unigram model with SentencePiece and encodes texts with it.

    make_unigram_vectors.py

Writes data/unigram.json: the vocabulary as a GGUF file has it (tokens, scores, kinds, the table of replacements in
hexadecimal digits) and texts with the ids that SentencePiece gives them. The table is made of a few rules, as that of
NFKC alone would be 300 kB. Needs PyPI sentencepiece and protobuf.
"""

import io
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

HERE = pathlib.Path(__file__).parent
# Characters that become others, one that becomes three, two that become one, spaces of other kinds, one that vanishes.
RULES = {"Ａ": "A", "ｂ": "b", "ﬁ": "fi", "…": "...", "e\u0301": "é", "①": "1", "\u3000": " ", "\t": " ", "\u200b": "",
         "ﬃ": "ffi", "A\u030a": "Å"}
SENTENCES = [
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    "She sells sea shells by the sea shore; the shells she sells are surely seashells.",
    "Größe ist nicht alles, aber ohne Größe ist manches nichts.",
    "Быстрая лиса прыгает через ленивую собаку.",
    "東京は日本の首都です。京都は昔の首都でした。",
    "Der Fluss fließt, das Café schließt, Ångström misst.",
    "Peter Piper picked a peck of pickled peppers, 1 2 3 4 5 times.",
]
TEXTS = [
    "The quick brown fox", " leading and   many    spaces ", "a", "", " ", "   ", "xyz", "Größe", "cafe\u0301 café", "ﬁve ﬃne ①",
    "tabs\tand\u3000wide\u200b spaces…", "Ａｂ Å A\u030a", "東京は日本の首都です。", "한국어 is unknown", "\U0001f600\U0001f600 twice", "naïve",
    "shells▁she▁sells", "e", "e\u0301", "e\u0301e\u0301x", "1.5 + 2 = 3?", "Быстрая собака", "</s> <unk> <s>", "line\nbreak\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\u0301", "seashellsseashells", "PETER piper PICKED",
]


def main():
    random.seed(7)
    letters = "Theasl dogßé京①ﬁ…e\u0301 \t\u3000xqZ\U0001f600"
    texts = TEXTS + ["".join(random.choices(letters, k=random.randint(1, 40))) for _ in range(60)]
    texts += [" ".join(random.choice(SENTENCES).split()[:random.randint(1, 9)]) for _ in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder, "rules.tsv")
        code = lambda text: " ".join(f"{ord(c):X}" for c in text)
        rules.write_text("".join(f"{code(a)}\t{code(b)}\n" for a, b in RULES.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(SENTENCES * 3), model_writer=model, vocab_size=170, model_type="unigram",
            normalization_rule_tsv=str(rules), pad_id=0, eos_id=1, unk_id=2, bos_id=-1, character_coverage=1.0,
            hard_vocab_limit=False, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    spec = proto.ModelProto.FromString(model.getvalue())
    data = {
        "tokens": [piece.piece for piece in spec.pieces],
        "scores": [piece.score for piece in spec.pieces],
        # The numbers are those of GGUF.
        "kinds": [piece.type for piece in spec.pieces],
        "charsmap": spec.normalizer_spec.precompiled_charsmap.hex(),
        "texts": [{"text": text, "ids": processor.encode(text)} for text in texts],
    }
    (HERE / "data/unigram.json").write_text(json.dumps(data, ensure_ascii=True, indent=0) + "\n")


main()
