"""Tiny random LoRA adapters of the tiny models: the ones that the golden data of tests/golden/lora was taken with.

Values depend on the seed, the adapter's and the tensor's name alone. All are F32, because llama.cpp rounds what meets
F16 or blocks.
"""
from __future__ import annotations

import re
import zlib
from pathlib import Path

import gguf
import numpy as np

SEED = 4321

# The model, the weights that are changed, the rank, and alpha where there is one.
ADAPTERS = {
    "llama-attention": ("tiny-llama3", r"attn_(q|v)\.weight", 3, 5.0),
    "llama-all": ("tiny-llama3", r"(attn_(q|k|v|output)|ffn_(gate|up|down))\.weight", 8, 16.0),
    "qwen-biased": ("tiny-qwen2", r"(attn_(q|k)|ffn_down)\.weight", 5, 20.0),
    "phi-embeddings": ("tiny-phi3", r"(attn_qkv|ffn_up|output|token_embd)\.weight", 4, None),
    "mixtral-experts": ("tiny-mixtral", r"(attn_output|ffn_gate_inp|ffn_(gate|up|down)_exps)\.weight", 4, 8.0),
}


def values(name: str, shape: tuple[int, ...], reach: float) -> np.ndarray:
    g = np.random.Generator(np.random.SFC64([SEED, zlib.crc32(name.encode())]))
    return g.normal(0.0, reach, size=shape).astype(np.float32)


def write_adapter(name: str, models: Path, target: Path) -> None:
    model, pattern, rank, alpha = ADAPTERS[name]
    base = gguf.GGUFReader(models / f"{model}.F32.gguf")
    partial = target.with_suffix(".partial")
    writer = gguf.GGUFWriter(str(partial), base.fields["general.architecture"].contents())
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    if alpha is not None:
        writer.add_float32("adapter.lora.alpha", alpha)
    for tensor in base.tensors:
        if not re.search(rf"(^|\.){pattern}$", tensor.name):
            continue
        columns, rows, *experts = (int(size) for size in tensor.shape)
        # As numpy has shapes: the fastest dimension last. The table of embeddings is looked up in by its columns.
        lower, upper = ((rows, rank), (columns, rank)) if tensor.name == "token_embd.weight" else \
            ((*experts, rank, columns), (*experts, rows, rank))
        reach = 0.5 if tensor.name == "token_embd.weight" else columns ** -0.5
        writer.add_tensor(f"{tensor.name}.lora_a", values(f"{name} {tensor.name} a", lower, reach))
        writer.add_tensor(f"{tensor.name}.lora_b", values(f"{name} {tensor.name} b", upper, 0.3 * rank ** -0.5))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(target)
    print("made", target)


def write_all(models: Path) -> None:
    """Writes every adapter that is not there yet, beside the models."""
    for name in ADAPTERS:
        target = models / f"lora-{name}.gguf"
        if not target.exists():
            write_adapter(name, models, target)
