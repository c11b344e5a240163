#!/usr/bin/env python3
"""Small random encoders, and the vectors that Hugging Face transformers computes with them.

  make_encoders.py

Writes encoders/NAME.gguf, and encoders/NAME.json: {"texts": [{"tokens": [...], "vector": [...]}]}. As in make.py, weights
are rounded to f16 before transformers sees them, and norms, biases and epsilons are far from 1 and 0.
"""
import json
import math
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

DATA = Path(__file__).parent / "encoders"
VOCABULARY = 100
# More than a page of positions, and more than a window on either side of most rows.
LENGTHS = [1, 7, 90]

BERT_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm",
}
MODERN_NAMES = {
    "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
    "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
    "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down",
}


def randomise(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            values = 0.3 * values + name.endswith("weight")
        elif "embeddings" in name:
            values *= 0.5
        else:
            # Queries and keys are larger, so that attention is far from even.
            values *= (1.5 if "query" in name or "Wqkv" in name else 1.0) / math.sqrt(parameter.shape[1])
        parameter.data = values.half().float()


def write(name: str, architecture: str, model: torch.nn.Module, names: dict, layers: str, keys: dict) -> None:
    config = model.config
    writer = gguf.GGUFWriter(DATA / f"{name}.gguf", architecture)
    writer.add_name(f"random {name}")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_layer_norm_eps(1e-3)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    for key, value in keys.items():
        add = {int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(f"{architecture}.{key}", value)
    for full, parameter in model.named_parameters():
        module, kind = full.rsplit(".", 1)
        block = ""
        if module.startswith(layers):
            layer, module = module.removeprefix(layers).split(".", 1)
            block = f"blk.{layer}."
        values = parameter.detach().numpy()
        is_matrix = values.ndim > 1
        writer.add_tensor(f"{block}{names[module]}.{kind}", values.astype(np.float16) if is_matrix else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vectors(name: str, model: torch.nn.Module) -> None:
    texts = []
    for length in LENGTHS:
        tokens = [(i * 37 + length * 11) % VOCABULARY for i in range(length)]
        with torch.no_grad():
            hidden = model(torch.tensor([tokens])).last_hidden_state[0]
        texts.append({"tokens": tokens, "vector": [float(np.float32(x)) for x in hidden.mean(0)]})
    (DATA / f"{name}.json").write_text(json.dumps({"texts": texts}) + "\n")


def main() -> None:
    DATA.mkdir(exist_ok=True)
    common = dict(vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_attention_heads=4,
                  max_position_embeddings=128, attn_implementation="eager", pad_token_id=0)
    bert = BertModel(BertConfig(num_hidden_layers=2, layer_norm_eps=1e-3, **common), add_pooling_layer=False).eval()
    randomise(bert, 21)
    write("bert", "bert", bert, BERT_NAMES, "encoder.layer.", {})
    vectors("bert", bert)
    # Layers 0 and 3 see everything, the others eight positions on either side.
    modern = ModernBertModel(ModernBertConfig(num_hidden_layers=4, norm_eps=1e-3, local_attention=16, global_attn_every_n_layers=3,
                                              global_rope_theta=160000.0, local_rope_theta=10000.0, **common)).eval()
    randomise(modern, 22)
    write("modern-bert", "modern-bert", modern, MODERN_NAMES, "layers.",
          {"rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "attention.sliding_window": 16,
           "attention.sliding_window_pattern": 3})
    vectors("modern-bert", modern)


main()
