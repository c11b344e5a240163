"""Tiny random models, one per family: the ones that the golden data of tests/golden/tiny was taken on.

Weights depend on the seed and the tensor's name alone. The tokenizer is that of SmolLM2, cut to a
vocabulary of 2048: a byte-level BPE whose ids follow merge order stays valid when it is cut.
"""
import math
import zlib
from pathlib import Path

import gguf
import numpy as np

SEED = 1234
VOCABULARY = 2048


def normal(std):
    return lambda g, shape: g.standard_normal(shape, dtype=np.float32) * np.float32(std)


def around_one(g, shape):
    return np.float32(1.0) + np.float32(0.1) * g.standard_normal(shape, dtype=np.float32)


def matrix(name, inputs, outputs):
    return f"{name}.weight", (inputs, outputs), normal(1 / math.sqrt(inputs))


def norm(name, width):
    return f"{name}.weight", (width,), around_one


def bias(name, width):
    return f"{name}.bias", (width,), normal(0.1)


def llama3_factors(dimensions, base, factor=32.0, low=1.0, high=4.0, original=8192):
    frequency = 1.0 / base ** (np.arange(0, dimensions, 2, dtype=np.float64) / dimensions)
    smooth = np.clip((original / (2 * math.pi / frequency) - low) / (high - low), 0, 1)
    values = (1.0 / ((1 - smooth) / factor + smooth)).astype(np.float32)
    return "rope_freqs.weight", (dimensions // 2,), lambda g, shape: values.reshape(shape)


def decoder(keys, untied=False, qkv_bias=False, head_norms=False, llama3=False):
    """llama, qwen2 (qkv_bias), qwen3 (head_norms)."""
    width, inner = keys["embedding_length"], keys["feed_forward_length"]
    heads, kv_heads = keys["attention.head_count"], keys["attention.head_count_kv"]
    head = keys.get("attention.key_length", width // heads)
    yield "token_embd.weight", (width, VOCABULARY), normal(1.0 / math.sqrt(width))
    if untied:
        yield "output.weight", (width, VOCABULARY), normal(3.0 / math.sqrt(width))
    yield norm("output_norm", width)
    if llama3:
        yield llama3_factors(keys["rope.dimension_count"], keys["rope.freq_base"])
    for layer in range(keys["block_count"]):
        p = f"blk.{layer}"
        yield norm(f"{p}.attn_norm", width)
        for x, outputs in (("q", heads * head), ("k", kv_heads * head), ("v", kv_heads * head)):
            yield matrix(f"{p}.attn_{x}", width, outputs)
            if qkv_bias:
                yield bias(f"{p}.attn_{x}", outputs)
        yield matrix(f"{p}.attn_output", heads * head, width)
        if head_norms:
            yield norm(f"{p}.attn_q_norm", head)
            yield norm(f"{p}.attn_k_norm", head)
        yield norm(f"{p}.ffn_norm", width)
        yield matrix(f"{p}.ffn_gate", width, inner)
        yield matrix(f"{p}.ffn_up", width, inner)
        yield matrix(f"{p}.ffn_down", inner, width)


def gpt2(keys):
    width, inner = keys["embedding_length"], keys["feed_forward_length"]
    yield "token_embd.weight", (width, VOCABULARY), normal(1.0 / math.sqrt(width))
    yield "position_embd.weight", (width, keys["context_length"]), normal(0.5 / math.sqrt(width))
    yield norm("output_norm", width)
    yield bias("output_norm", width)
    for layer in range(keys["block_count"]):
        p = f"blk.{layer}"
        for x in ("attn_norm", "ffn_norm"):
            yield norm(f"{p}.{x}", width)
            yield bias(f"{p}.{x}", width)
        yield matrix(f"{p}.attn_qkv", width, 3 * width)
        yield bias(f"{p}.attn_qkv", 3 * width)
        yield matrix(f"{p}.attn_output", width, width)
        yield bias(f"{p}.attn_output", width)
        yield matrix(f"{p}.ffn_up", width, inner)
        yield bias(f"{p}.ffn_up", inner)
        yield matrix(f"{p}.ffn_down", inner, width)
        yield bias(f"{p}.ffn_down", width)


def dense(heads, kv_heads, base, epsilon, head=None):
    keys = {"context_length": 512, "embedding_length": 256, "block_count": 3, "feed_forward_length": 512,
            "attention.head_count": heads, "attention.head_count_kv": kv_heads,
            "attention.layer_norm_rms_epsilon": epsilon}
    if head:
        keys |= {"attention.key_length": head, "attention.value_length": head}
    return keys | {"rope.freq_base": float(base), "rope.dimension_count": head or 256 // heads}


GPT2 = {"context_length": 512, "embedding_length": 256, "block_count": 3, "feed_forward_length": 1024,
        "attention.head_count": 4, "attention.layer_norm_epsilon": 1e-5}

# name: architecture, hyper-parameters, tensors
MODELS = {
    "tiny-llama": ("llama", dense(8, 2, 1e4, 1e-5), lambda k: decoder(k, untied=True)),
    "tiny-llama3": ("llama", dense(4, 2, 5e5, 1e-5, head=64), lambda k: decoder(k, llama3=True)),
    "tiny-qwen2": ("qwen2", dense(4, 2, 1e6, 1e-6), lambda k: decoder(k, qkv_bias=True)),
    "tiny-qwen3": ("qwen3", dense(4, 2, 1e6, 1e-6, head=128), lambda k: decoder(k, head_norms=True)),
    "tiny-gpt2": ("gpt2", GPT2, gpt2),
}


def byte_level_alphabet():
    """The 256 printable stand-ins of byte-level BPE."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    return [chr(b) if b in keep else chr(next(spare)) for b in range(256)]


def cut_tokenizer(path):
    """The tokenizer.* fields of a file as {key: (value, type, sub type)}, cut to VOCABULARY entries."""
    fields = {f.name: (f.contents(), f.types[0], f.types[1] if len(f.types) > 1 else None)
              for f in gguf.GGUFReader(path).fields.values() if f.name.startswith("tokenizer.")}
    names, kinds = fields["tokenizer.ggml.tokens"][0], fields["tokenizer.ggml.token_type"][0]
    special = [t for t, k in zip(names, kinds) if k in (3, 4)]
    kept = special + [c for c in byte_level_alphabet() if c in set(names)]
    chosen, live = set(kept), []
    for merge in fields["tokenizer.ggml.merges"][0]:
        if len(kept) == VOCABULARY:
            break
        a, b = merge.split(" ", 1)
        if a in chosen and b in chosen:
            live.append(merge)
            if a + b not in chosen:
                chosen.add(a + b)
                kept.append(a + b)
    old, new = {t: i for i, t in enumerate(names)}, {t: i for i, t in enumerate(kept)}
    for key, (value, *types) in list(fields.items()):
        if key.endswith("_token_id"):
            if names[int(value)] in new:
                fields[key] = (new[names[int(value)]], *types)
            else:
                del fields[key]
    for key, value in (("tokens", kept), ("token_type", [kinds[old[t]] for t in kept]), ("merges", live)):
        key = f"tokenizer.ggml.{key}"
        fields[key] = (value, *fields[key][1:])
    return fields


def put(writer, key, value):
    if isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def write_all(folder: Path, tokenizer_from: Path) -> None:
    """Writes every model that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in MODELS if not (folder / f"{name}.F32.gguf").exists()]
    tokenizer = cut_tokenizer(tokenizer_from) if missing else {}
    for name in missing:
        architecture, keys, tensors = MODELS[name]
        target = folder / f"{name}.F32.gguf"
        partial = target.with_suffix(".partial")
        writer = gguf.GGUFWriter(str(partial), architecture)
        writer.add_name(f"random weights, {keys['block_count']} layers")
        for key, value in keys.items():
            put(writer, f"{architecture}.{key}", value)
        writer.add_uint32(f"{architecture}.vocab_size", VOCABULARY)
        for key, (value, kind, sub) in tokenizer.items():
            writer.add_key_value(key, value, kind, sub_type=sub)
        for tensor, shape, init in tensors(keys):
            g = np.random.Generator(np.random.SFC64([SEED, zlib.crc32(tensor.encode())]))
            writer.add_tensor(tensor, np.ascontiguousarray(init(g, tuple(reversed(shape))), dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        partial.rename(target)
        print("made", target)
