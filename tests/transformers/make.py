#!/usr/bin/env python3
"""Small random models of every family, and what Hugging Face transformers computes with them.

  make.py [VARIANT ...]

Writes for each variant, into data/ beside this file:
  NAME.gguf        the model, in llama.cpp's tensor names and layouts
  NAME.json        {"sequences": [{"tokens": [...], "positions": [...]}]}
  NAME.logits.f32  little-endian f32 [sequence][stored position][vocabulary]

Weights are rounded to f16 before transformers sees them, so that the matrices of the GGUF files can be
F16 without any loss. The random scales are chosen for tests, not for training: norms, biases and epsilons
are far from 1 and 0, so that leaving any of them out moves the logits by much more than rounding does.
"""
import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import (
    DeepseekV3Config, DeepseekV3ForCausalLM,
    Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GptOssConfig,
    GptOssForCausalLM, GraniteConfig,
    GraniteForCausalLM, Llama4ForCausalLM, Llama4TextConfig, LlamaConfig, LlamaForCausalLM, Mamba2Config, Mamba2ForCausalLM, MistralConfig,
    MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo3Config, Olmo3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3_5ForCausalLM,
    Qwen3_5TextConfig, Qwen3Config, Qwen3ForCausalLM)

import experts

DATA = Path(__file__).parent / "data"
LENGTHS = [7, 90]
# All of the short sequence; of the long one also both sides of position 64, where a KV page ends.
STORED = [list(range(7)), [0, 1, 31, 62, 63, 64, 65, 77, 89]]

# A byte-level BPE vocabulary, just large enough to be valid: printable ASCII, space, newline, three merges.
TOKENS = ["<|endoftext|>", "Ġ", "Ċ"] + [chr(c) for c in range(33, 127)] + ["th", "he", "the"]
MERGES = ["t h", "h e", "th e"]

COMMON = dict(vocab_size=len(TOKENS), bos_token_id=0, eos_token_id=0, attn_implementation="eager")
DECODER = dict(COMMON, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=128)


@dataclass
class Variant:
    """One model: its transformers classes and configuration, and the GGUF architecture it becomes."""
    architecture: str
    model: type
    config: type
    options: dict
    seed: int
    # rope.* metadata beyond the base, by key; rotary factors are derived from the configuration.
    rope: dict = field(default_factory=dict)
    # Other metadata of the family.
    keys: dict = field(default_factory=dict)


def rope(kind: str, base: float = 10000.0, **more) -> dict:
    return {"rope_type": kind, "rope_theta": base, **more}


def llama(seed: int, scaling: dict | None = None, metadata: dict | None = None, **more) -> Variant:
    options = dict(DECODER, rms_norm_eps=1e-3, rope_parameters=scaling or rope("default"))
    return Variant("llama", LlamaForCausalLM, LlamaConfig, options | more, seed, metadata or {})


VARIANTS = {
    "llama": llama(1, tie_word_embeddings=False),
    "llama-linear": llama(2, rope("linear", factor=4.0),
                          {"scaling.type": "linear", "scaling.factor": 4.0}, tie_word_embeddings=True),
    "llama-yarn": llama(3, rope("yarn", factor=4.0, original_max_position_embeddings=64),
                        {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 64},
                        max_position_embeddings=256, tie_word_embeddings=True),
    "llama3": llama(4, rope("llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                            original_max_position_embeddings=64),
                    max_position_embeddings=512, tie_word_embeddings=True),
    "llama-bias": llama(5, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama-head-dim": llama(6, head_dim=24, tie_word_embeddings=True),
    "mistral": Variant("llama", MistralForCausalLM, MistralConfig,
                       dict(DECODER, rms_norm_eps=1e-3, head_dim=16, sliding_window=None,
                            rope_parameters=rope("default", 1e6), tie_word_embeddings=False), 7),
    "qwen2": Variant("qwen2", Qwen2ForCausalLM, Qwen2Config,
                     dict(DECODER, rms_norm_eps=1e-3, rope_parameters=rope("default", 1e6),
                          tie_word_embeddings=True), 8),
    "qwen2-yarn": Variant("qwen2", Qwen2ForCausalLM, Qwen2Config,
                          dict(DECODER, rms_norm_eps=1e-3, max_position_embeddings=128,
                               rope_parameters=rope("yarn", 1e6, factor=2.0, beta_fast=4.0, beta_slow=0.5,
                                                    original_max_position_embeddings=64),
                               tie_word_embeddings=True), 9,
                          {"scaling.type": "yarn", "scaling.factor": 2.0, "scaling.original_context_length": 64,
                           "scaling.yarn_beta_fast": 4.0, "scaling.yarn_beta_slow": 0.5}),
    "qwen3": Variant("qwen3", Qwen3ForCausalLM, Qwen3Config,
                     dict(DECODER, rms_norm_eps=1e-3, head_dim=32, rope_parameters=rope("default", 1e6),
                          tie_word_embeddings=True), 10),
    "gemma2": Variant("gemma2", Gemma2ForCausalLM, Gemma2Config,
                      dict(DECODER, rms_norm_eps=1e-3, head_dim=24, query_pre_attn_scalar=24, sliding_window=16,
                           attn_logit_softcapping=3.0, final_logit_softcapping=8.0,
                           rope_parameters=rope("default"), tie_word_embeddings=True), 12,
                      keys={"attention.sliding_window": 16, "attn_logit_softcapping": 3.0,
                            "final_logit_softcapping": 8.0}),
    "gemma3": Variant("gemma3", Gemma3ForCausalLM, Gemma3TextConfig,
                      dict(DECODER, rms_norm_eps=1e-3, head_dim=24, query_pre_attn_scalar=24, sliding_window=16,
                           num_hidden_layers=6,
                           rope_parameters={"sliding_attention": rope("default"),
                                            "full_attention": rope("linear", 1e6, factor=8.0)},
                           tie_word_embeddings=True), 13,
                      {"scaling.type": "linear", "scaling.factor": 8.0}, {"attention.sliding_window": 16}),
    "granite": Variant("granite", GraniteForCausalLM, GraniteConfig,
                       dict(DECODER, rms_norm_eps=0.1, embedding_multiplier=3.0, residual_multiplier=0.4,
                            attention_multiplier=0.1, logits_scaling=4.0, rope_parameters=rope("default"),
                            tie_word_embeddings=True), 14,
                       keys={"embedding_scale": 3.0, "residual_scale": 0.4, "attention.scale": 0.1,
                             "logit_scale": 4.0}),
    "olmo3": Variant("olmo2", Olmo3ForCausalLM, Olmo3Config,
                     dict(DECODER, rms_norm_eps=1e-3, sliding_window=16, num_hidden_layers=4,
                          rope_parameters=rope("default", 5e5), tie_word_embeddings=False), 15,
                     keys={"attention.sliding_window": 16}),
    "gpt2": Variant("gpt2", GPT2LMHeadModel, GPT2Config,
                    dict(COMMON, n_embd=64, n_layer=2, n_head=4, n_inner=80, n_positions=96,
                         layer_norm_epsilon=1e-3), 11),
    "mamba2": Variant("mamba2", Mamba2ForCausalLM, Mamba2Config,
                      dict(COMMON, hidden_size=64, num_hidden_layers=2, num_heads=8, head_dim=16, state_size=24,
                           n_groups=1, expand=2, conv_kernel=4, chunk_size=16, layer_norm_epsilon=1e-3,
                           rms_norm=True, tie_word_embeddings=False), 16,
                      keys={"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 24,
                            "ssm.time_step_rank": 8, "ssm.group_count": 1}),
    # Two value heads for each key head; half of each head of attention is rotated.
    "qwen35": Variant("qwen35", Qwen3_5ForCausalLM, Qwen3_5TextConfig,
                      dict(DECODER, rms_norm_eps=1e-3, num_hidden_layers=3, head_dim=24, linear_num_value_heads=4,
                           linear_num_key_heads=2, linear_key_head_dim=20, linear_value_head_dim=20,
                           linear_conv_kernel_dim=4,
                           layer_types=["linear_attention", "full_attention", "linear_attention"],
                           rope_parameters=rope("default", 1e6, partial_rotary_factor=0.5),
                           tie_word_embeddings=False), 17,
                      keys={"ssm.conv_kernel": 4, "ssm.inner_size": 80, "ssm.state_size": 20,
                            "ssm.time_step_rank": 4, "ssm.group_count": 2, "full_attention_interval": 2}),
    "mixtral": Variant("llama", MixtralForCausalLM, MixtralConfig,
                       dict(DECODER, rms_norm_eps=1e-3, num_local_experts=5, num_experts_per_tok=2,
                            sliding_window=None, rope_parameters=rope("default", 1e6), tie_word_embeddings=True), 18,
                       keys={"expert_count": 5, "expert_used_count": 2}),
    "gpt-oss": Variant("gpt-oss", GptOssForCausalLM, GptOssConfig,
                       dict(DECODER, rms_norm_eps=1e-3, head_dim=16, num_local_experts=5, num_experts_per_tok=2,
                            sliding_window=16, rope_parameters=rope("default", 150000.0), tie_word_embeddings=True), 19,
                       keys={"expert_count": 5, "expert_used_count": 2, "expert_feed_forward_length": 64,
                             "attention.sliding_window": 16}),
    # Latent attention, as files have it in which what makes keys and values of the latent vector is apart.
    "deepseek3": Variant("deepseek2", DeepseekV3ForCausalLM, DeepseekV3Config,
                         dict(DECODER, rms_norm_eps=1e-3, num_key_value_heads=4, n_routed_experts=8,
                              num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=1,
                              moe_intermediate_size=32, first_k_dense_replace=1, routed_scaling_factor=2.5,
                              norm_topk_prob=True, kv_lora_rank=24, q_lora_rank=20, qk_rope_head_dim=8,
                              qk_nope_head_dim=12, v_head_dim=14,
                              rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=64, mscale=1.0,
                                                   mscale_all_dim=1.0),
                              max_position_embeddings=256, tie_word_embeddings=True), 20,
                         {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 64,
                          "scaling.yarn_log_multiplier": 0.1},
                         {"attention.kv_lora_rank": 24, "attention.q_lora_rank": 20, "attention.key_length": 32,
                          "attention.value_length": 24, "attention.key_length_mla": 20,
                          "attention.value_length_mla": 14, "leading_dense_block_count": 1, "expert_count": 8,
                          "expert_used_count": 3, "expert_group_count": 4, "expert_group_used_count": 2,
                          "expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": 2.5,
                          "expert_feed_forward_length": 32, "expert_shared_count": 1}),
    # Chunks and steps of temperature that the longer sequence goes through several of; rows of Q and K are interleaved.
    "llama4": Variant("llama4", Llama4ForCausalLM, Llama4TextConfig,
                      dict(DECODER, rms_norm_eps=0.1, num_hidden_layers=4, head_dim=16, intermediate_size=48,
                           intermediate_size_mlp=64, num_local_experts=5, num_experts_per_tok=2,
                           interleave_moe_layer_step=2, attention_chunk_size=20, floor_scale=7, attn_scale=0.3,
                           attn_temperature_tuning=True, use_qk_norm=True, no_rope_layer_interval=4,
                           rope_parameters=rope("default", 500000.0), tie_word_embeddings=False), 21,
                      keys={"attention.sliding_window": 20, "attention.temperature_length": 7,
                            "attention.temperature_scale": 0.3, "interleave_moe_layer_step": 2, "expert_count": 5,
                            "expert_used_count": 2, "expert_feed_forward_length": 48}),
}


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draws every parameter anew, by what it is, and rounds it to f16."""
    generator = torch.Generator().manual_seed(seed)
    gemma = model.config.model_type.startswith(("gemma", "qwen3_5"))
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            # Gemma and Qwen 3.5 add one to the factors of norms themselves, but not to those of gated ones.
            values = 0.3 * values + (name.endswith("weight") and (not gemma or "linear_attn" in name))
        elif "embed" in name or "wte" in name or "wpe" in name:
            # Gemma multiplies them with eight when it embeds tokens.
            values *= 0.08 if model.config.model_type.startswith("gemma") else 0.25
        else:
            inputs = parameter.shape[0] if model.config.model_type == "gpt2" else parameter.shape[1]
            if "conv1d" in name:
                inputs = parameter.shape[2]
            if "experts" in name and parameter.dim() == 3:
                inputs = experts.inputs(model, parameter)
            # Queries are larger, so that attention is far from even and positions matter.
            values *= (2.0 if "q_proj" in name else 1.0) / math.sqrt(inputs)
        parameter.data = values.half().float()
    experts.adjust(model, generator)


def interleave(tensor: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head from (all first halves, all second halves) to (pair, pair, ...)."""
    halves = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(tensor.shape)


DECODER_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
} | experts.NAMES
# Where norms come after attention and feed-forward too, or only there.
SANDWICH_NAMES = DECODER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
MAMBA2_NAMES = {
    "backbone.embeddings": "token_embd", "backbone.norm_f": "output_norm", "lm_head": "output", "norm": "attn_norm",
    "mixer": "ssm", "mixer.conv1d": "ssm_conv1d", "mixer.in_proj": "ssm_in", "mixer.norm": "ssm_norm",
    "mixer.out_proj": "ssm_out",
}
QWEN35_NAMES = DECODER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "linear_attn": "ssm", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out", "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha",
}
# Parameters of a mixer itself.
RECURRENT_NAMES = {"dt_bias": "ssm_dt.bias", "A_log": "ssm_a", "D": "ssm_d"}
GPT2_NAMES = {
    "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
    "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}


def recurrent(variant: Variant, config, name: str, values: np.ndarray) -> np.ndarray:
    """What GGUF files have of a recurrent layer's tensors."""
    name = name.split(".", 2)[-1]
    if name == "ssm_a":
        values = -np.exp(values)
    if name == "ssm_conv1d.weight":
        values = values[:, 0]
    if variant.architecture == "mamba2":
        return values[:, None] if name in ("ssm_a", "ssm_d") else values
    # Value heads that share a key head are neighbours in transformers; in files they take key heads in turn.
    keys, heads, size = config.linear_num_key_heads, config.linear_num_value_heads, config.linear_value_head_dim
    def in_turn(values, each):
        return values.reshape(keys, heads // keys, each, -1).swapaxes(0, 1).reshape(values.shape)
    if name in ("ssm_a", "ssm_dt.bias", "ssm_beta.weight", "ssm_alpha.weight"):
        return in_turn(values, 1)
    if name == "attn_gate.weight":
        return in_turn(values, size)
    if name in ("attn_qkv.weight", "ssm_conv1d.weight"):
        before = 2 * keys * config.linear_key_head_dim
        return np.concatenate([values[:before], in_turn(values[before:], size)])
    if name == "ssm_out.weight":
        return np.ascontiguousarray(in_turn(np.ascontiguousarray(values.T), size).T)
    return values


def tensors(variant: Variant, model: torch.nn.Module):
    """All tensors of the GGUF file: (name, values). `named_parameters` lists tied weights once."""
    gpt2 = variant.architecture == "gpt2"
    names, layers = (GPT2_NAMES, "transformer.h.") if gpt2 else (DECODER_NAMES, "model.layers.")
    if variant.architecture in ("gemma2", "gemma3", "olmo2"):
        names = SANDWICH_NAMES
    if variant.architecture == "mamba2":
        names, layers = MAMBA2_NAMES, "backbone.layers."
    if variant.architecture == "qwen35":
        names = QWEN35_NAMES
    # Pairs of rotated values lie side by side there, and half a head apart in transformers.
    interleaved = variant.architecture in ("llama", "granite")
    config = model.config
    for full, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        module, kind = full.rsplit(".", 1)
        if module.startswith(layers):
            layer, module = module.removeprefix(layers).split(".", 1)
            module = module.replace("feed_forward", "mlp")
            parts = experts.parts(config, f"{module}.{kind}", values)
            if parts is not None:
                yield from ((f"blk.{layer}.{part}", np.ascontiguousarray(values)) for part, values in parts)
                continue
            name = f"blk.{layer}.{RECURRENT_NAMES.get(kind) or f'{names[module]}.{kind}'}"
        else:
            name = f"{names[module]}.{kind}"
        if gpt2 and values.ndim == 2 and ".c_" in full:
            values = np.ascontiguousarray(values.T)  # Conv1D holds [in, out]
        if variant.architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1  # Gemma adds it when it runs, GGUF files have it
        if variant.architecture == "qwen35" and name.endswith("norm.weight") and "ssm" not in name:
            values = values + 1  # as Gemma
        if variant.architecture in ("mamba2", "qwen35"):
            values = recurrent(variant, config, name, values)
        if interleaved and ".attn_q." in name:
            values = interleave(values, config.num_attention_heads)
        if interleaved and ".attn_k." in name:
            values = interleave(values, config.num_key_value_heads)
        if variant.architecture == "gpt-oss" and name.endswith("ffn_norm.weight"):
            name = name.replace("ffn_norm", "post_attention_norm")
        yield name, values
    for full, buffer in model.named_buffers():
        if full.endswith(experts.CHOICE):
            layer = full.removeprefix(layers).split(".", 1)[0]
            yield f"blk.{layer}.exp_probs_b.bias", buffer.numpy()
    if hasattr(config, "rope_parameters") and config.rope_parameters.get("rope_type") == "llama3":
        yield "rope_freqs.weight", llama3_factors(config)


def llama3_factors(config) -> np.ndarray:
    """What each rotary frequency is divided by, one per pair."""
    p = config.rope_parameters
    size = config.hidden_size // config.num_attention_heads
    factors = []
    for pair in range(size // 2):
        wavelength = 2 * math.pi * p["rope_theta"] ** (2 * pair / size)
        turns = p["original_max_position_embeddings"] / wavelength
        if turns > p["high_freq_factor"]:
            factors.append(1.0)
        elif turns < p["low_freq_factor"]:
            factors.append(p["factor"])
        else:
            keep = (turns - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
            factors.append(1 / ((1 - keep) / p["factor"] + keep))
    return np.array(factors, dtype=np.float32)


def write_gguf(name: str, variant: Variant, model: torch.nn.Module) -> None:
    config = model.config
    writer = gguf.GGUFWriter(DATA / f"{name}.gguf", variant.architecture)
    writer.add_name(f"random {name}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(getattr(config, "max_position_embeddings", 128))
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    if variant.architecture != "mamba2":
        writer.add_head_count(config.num_attention_heads)
    if variant.architecture == "mamba2":
        writer.add_layer_norm_rms_eps(config.layer_norm_epsilon)
    elif variant.architecture == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        writer.add_feed_forward_length(getattr(config, "intermediate_size_mlp", config.intermediate_size))
        latent = variant.architecture == "deepseek2"
        writer.add_head_count_kv(1 if latent else config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        parameters = config.rope_parameters
        writer.add_rope_freq_base(parameters.get("full_attention", parameters)["rope_theta"])
        rotated = config.qk_rope_head_dim if latent else int(size * parameters.get("partial_rotary_factor", 1))
        writer.add_rope_dimension_count(rotated)
        if not latent and size * config.num_attention_heads != config.hidden_size:
            writer.add_key_length(size)
            writer.add_value_length(size)
    for key, value in ({f"rope.{key}": value for key, value in variant.rope.items()} | variant.keys).items():
        add = {str: writer.add_string, int: writer.add_uint32, bool: writer.add_bool, float: writer.add_float32}[type(value)]
        add(f"{variant.architecture}.{key}", value)

    write_vocabulary(writer)
    for tensor, values in tensors(variant, model):
        half = values.astype(np.float16)
        is_matrix = values.ndim > 1 and not tensor.endswith("ssm_a")
        if is_matrix:
            assert np.array_equal(half.astype(np.float32), values), tensor
        writer.add_tensor(tensor, half if is_matrix else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_vocabulary(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(TOKENS)
    kinds = [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(TOKENS) - 1)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)


def make(name: str, variant: Variant) -> None:
    model = variant.model(variant.config(**variant.options)).float().eval()
    randomise(model, variant.seed)
    write_gguf(name, variant, model)
    store_logits(name, variant.seed, model)


def store_logits(name: str, seed: int, model: torch.nn.Module) -> None:
    generator = torch.Generator().manual_seed(1000 + seed)
    sequences, rows = [], []
    for length, stored in zip(LENGTHS, STORED):
        tokens = torch.randint(1, len(TOKENS), (length,), generator=generator)
        with torch.no_grad():
            logits = model(tokens[None]).logits[0][stored]
        best = logits.topk(2, dim=-1).values
        margin = (best[:, 0] - best[:, 1]).min().item()
        assert margin > 2e-3, f"{name}: the two best logits are {margin} apart: choose another seed"
        sequences.append({"tokens": tokens.tolist(), "positions": stored})
        rows.append(logits.numpy().astype("<f4"))
    rows = np.concatenate(rows)
    rows.tofile(DATA / f"{name}.logits.f32")
    (DATA / f"{name}.json").write_text(json.dumps({"sequences": sequences}) + "\n")
    print(f"{name}: spread {rows.std():.2f}, largest {np.abs(rows).max():.2f}")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or VARIANTS:
        make(chosen, VARIANTS[chosen])
