#!/usr/bin/env python3
"""Makes up a small vocabulary of RWKV's kind and encodes texts with the tokenizer of PyPI rwkv.

    make_rwkv_vectors.py

Writes data/rwkv.json: the tokens as llama.cpp's converter writes them into a GGUF file, and texts with the ids that
RWKV's own tokenizer gives them.
"""

import json
import pathlib
import random
import tempfile

from rwkv.rwkv_tokenizer import TRIE_TOKENIZER

HERE = pathlib.Path(__file__).parent
TEXT = """The quick brown fox jumps over the lazy dog, and the dog doesn't mind at all: it's "fine".
\tdef cover(text):\r\n    return text\\n    # 東京は日本の首都です。 Größe, naïve café … 😀😀

User: what's a token? Assistant: the longest one, one one one."""


def main():
    random.seed(11)
    data = TEXT.encode()
    pieces = {bytes([byte]) for byte in range(256)}
    # Words, their beginnings, and pieces that begin and end within characters.
    pieces |= {word.encode() for word in TEXT.split(" ")} | {f" {word}".encode() for word in TEXT.split(" ")[:30]}
    for _ in range(300):
        start = random.randrange(len(data))
        pieces.add(data[start:start + random.randint(2, 12)])
    pieces |= {b"\n\n", b"\\", b"'\"", b"\\x41", b"one one"}
    pieces = sorted(pieces - {b""}, key=lambda piece: (len(piece), piece))
    texts = [TEXT, "", "\n\n\n", "\\n is not a new line", "\x00\x01\x7f", "it's \"'\"", "<s> [PAD9]", "京都 東京", "\\x41A", "one one one"]
    texts += ["".join(random.choices(TEXT, k=random.randint(1, 40))) for _ in range(40)]
    texts += [TEXT[(a := random.randrange(len(TEXT))):a + 60] for _ in range(40)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "vocabulary.txt")
        # Text where a piece is text, bytes where it is not, as in RWKV's file.
        def shown(piece):
            try:
                return repr(piece.decode())
            except UnicodeDecodeError:
                return repr(piece)
        path.write_text("".join(f"{i} {shown(piece)} {len(piece)}\n" for i, piece in enumerate(pieces, 1)))
        tokenizer = TRIE_TOKENIZER(str(path))
    data = {
        "tokens": ["<s>"] + [repr(piece)[2:-1] for piece in pieces] + ["[PAD9]"],
        "texts": [{"text": text, "ids": tokenizer.encode(text)} for text in texts],
    }
    (HERE / "data/rwkv.json").write_text(json.dumps(data, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
