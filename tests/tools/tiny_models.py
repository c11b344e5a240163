"""Tiny random models, one per family or variant: the ones that the golden data of tests/golden/tiny was taken on.

Weights depend on the seed and the tensor's name alone. The tokenizer is that of SmolLM2 with its vocabulary cut: a
byte-level BPE whose ids follow merge order stays valid when it is cut.
"""
from __future__ import annotations

import zlib
from pathlib import Path

import gguf
import numpy as np
from gguf import GGUFValueType as VT

from tiny_architectures import BUILDERS, Spec
from tiny_presets import PRESETS

SEED = 1234


def load_tokenizer(path: Path) -> dict[str, tuple]:
    """All tokenizer.* fields of a GGUF as {key: (value, type, sub_type)}."""
    out = {}
    for f in gguf.GGUFReader(path).fields.values():
        if f.name.startswith("tokenizer."):
            out[f.name] = (f.contents(), f.types[0], f.types[1] if len(f.types) > 1 else None)
    return out


def byte_level_alphabet() -> list[str]:
    """The 256 printable stand-ins of byte-level BPE (the GPT-2 byte-to-unicode map)."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(spare)) for b in range(256)]


def fit_tokenizer(tok: dict[str, tuple], n: int) -> dict[str, tuple]:
    """Cut or pad the vocabulary to exactly n entries."""
    tok = dict(tok)
    names, vt, st = tok["tokenizer.ggml.tokens"]
    kinds = tok["tokenizer.ggml.token_type"][0]
    merges = tok.get("tokenizer.ggml.merges", ([],))[0]
    if n < len(names):
        special = [t for t, k in zip(names, kinds) if k in (3, 4)]
        known = set(names)
        base = special + [c for c in byte_level_alphabet() if c in known]
        kept, chosen, live = list(base), set(base), []
        for m in merges:                      # in rank order, while both parts exist
            a, b = m.split(" ", 1)
            if len(kept) == n:
                break
            if a in chosen and b in chosen:
                live.append(m)
                if a + b not in chosen:
                    chosen.add(a + b)
                    kept.append(a + b)
        if len(kept) != n:
            raise SystemExit(f"cannot cut this vocabulary to {n} (stopped at {len(kept)})")
        old = {t: i for i, t in enumerate(names)}
        new = {t: i for i, t in enumerate(kept)}
        for key, (val, a, b) in list(tok.items()):
            if key.endswith("_token_id"):
                if names[int(val)] in new:
                    tok[key] = (new[names[int(val)]], a, b)
                else:
                    del tok[key]
        kinds, names, merges = [kinds[old[t]] for t in kept], kept, live
    tok["tokenizer.ggml.tokens"] = (names, vt, st)
    tok["tokenizer.ggml.token_type"] = (kinds, *tok["tokenizer.ggml.token_type"][1:])
    if merges:
        tok["tokenizer.ggml.merges"] = (merges, *tok["tokenizer.ggml.merges"][1:])
    if "tokenizer.ggml.scores" in tok:
        sc, a, b = tok["tokenizer.ggml.scores"]
        tok["tokenizer.ggml.scores"] = ((list(sc) + [0.0] * n)[:n], a, b)
    return tok


def wordpiece_tokenizer(tok: dict[str, tuple], n: int) -> dict[str, tuple]:
    """A lower-case WordPiece vocabulary of n entries from the words of a byte-level BPE; a leading U+2581 marks a word's start."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    chars = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    pieces = dict.fromkeys(special + ["\u2581" + c for c in chars] + [c for c in chars if c.isalnum()])
    for word in tok["tokenizer.ggml.tokens"][0]:
        body = word.lstrip("\u0120")
        if body.isascii() and body.isalpha() and body.islower():
            pieces["\u2581" * (body != word) + body] = None
    names = list(pieces)[:n]
    number, text = (VT.UINT32, None), (VT.STRING, None)
    ids = {f"tokenizer.ggml.{k}_token_id": (i, *number)
           for k, i in (("padding", 0), ("unknown", 1), ("cls", 2), ("bos", 2), ("seperator", 3), ("eos", 3), ("mask", 4))}
    return ids | {"tokenizer.ggml.model": ("bert", *text), "tokenizer.ggml.tokens": (names, VT.ARRAY, VT.STRING),
                  "tokenizer.ggml.token_type": ([3] * 5 + [1] * (n - 5), VT.ARRAY, VT.INT32)}


def put(writer: gguf.GGUFWriter, key: str, value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_model(spec: Spec, target: Path, tokenizer: dict[str, tuple]) -> None:
    partial = target.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), spec.arch)
    # Not the preset's name: llama.cpp has exceptions for some names.
    writer.add_name(f"random weights, {spec.kv['block_count']} layers")
    for key, value in spec.kv.items():
        put(writer, key if key.startswith("xielu.") else f"{spec.arch}.{key}", value)
    writer.add_uint32(f"{spec.arch}.vocab_size", spec.vocab)
    fit = wordpiece_tokenizer if spec.opts.get("tokenizer") == "wordpiece" else fit_tokenizer
    for key, (value, kind, sub) in fit(tokenizer, spec.vocab).items():
        writer.add_key_value(key, value, kind, sub_type=sub)
    if "bert" in spec.arch:
        writer.add_uint32("tokenizer.ggml.token_type_count", 2 if spec.arch != "jina-bert-v3" else 1)
    for tensor in BUILDERS[spec.arch](spec):
        g = np.random.Generator(np.random.SFC64([SEED, zlib.crc32(tensor.name.encode())]))
        values = tensor.init(g, tuple(reversed(tensor.shape)))
        writer.add_tensor(tensor.name, np.ascontiguousarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(target)
    print("made", target)


def write_all(folder: Path, golden: Path, tokenizer_from: Path) -> None:
    """Writes every model that golden data is there for and that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    named = {file.name.split(".")[0]: folder / f"{file.name.split('.')[0]}.F32.gguf" for file in golden.glob("*.jsonl")}
    missing = {name: target for name, target in sorted(named.items()) if not target.exists()}
    tokenizer = load_tokenizer(tokenizer_from) if missing else {}
    for name, target in missing.items():
        write_model(PRESETS[name], target, tokenizer)
