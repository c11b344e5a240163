#!/usr/bin/env python3
"""Small random models of Gemma 3n and Gemma 4, whose layers are unlike all others, and what transformers computes.

  make_gemma.py [VARIANT ...]

Writes the same files as make.py, into the same folder.
"""
import math
import sys

import gguf
import numpy as np
import torch
from transformers import Gemma3nForCausalLM, Gemma3nTextConfig, Gemma4ForCausalLM, Gemma4TextConfig

from make import COMMON, DATA, TOKENS, store_logits, write_vocabulary

SLIDING, FULL = "sliding_attention", "full_attention"
OPTIONS = dict(COMMON, hidden_size=64, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
               max_position_embeddings=128, rms_norm_eps=1e-3, sliding_window=16, final_logit_softcapping=8.0,
               vocab_size_per_layer_input=len(TOKENS), hidden_size_per_layer_input=12)


def gemma4() -> torch.nn.Module:
    """Heads of 16 and of 24, of which three pairs are rotated; the last three layers have wider feed-forwards and no keys."""
    return Gemma4ForCausalLM(Gemma4TextConfig(
        **OPTIONS, num_hidden_layers=6, layer_types=[SLIDING, SLIDING, FULL] * 2, num_kv_shared_layers=3,
        global_head_dim=24, num_global_key_value_heads=1, attention_k_eq_v=True, use_double_wide_mlp=True,
        enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=24))


def gemma3n() -> torch.nn.Module:
    """Two layers with sparse gates, the last two without keys."""
    return Gemma3nForCausalLM(Gemma3nTextConfig(
        **OPTIONS, num_hidden_layers=5, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=2,
        laurel_rank=64, altup_num_inputs=4, activation_sparsity_pattern=[0.95, 0.8, 0.0, 0.0, 0.0]))


VARIANTS = {"gemma4": (gemma4, 31), "gemma3n": (gemma3n, 32)}

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm",
    "model.embed_tokens_per_layer": "per_layer_token_embd", "model.per_layer_model_projection": "per_layer_model_proj",
    "model.per_layer_projection_norm": "per_layer_proj_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm",
    "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2",
    "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "router.proj": "ffn_gate_inp",
    "altup.correction_coefs": "altup_correct_coef", "altup.prediction_coefs": "altup_predict_coef",
    "altup.modality_router": "altup_router", "altup.router_norm": "altup_router_norm",
    "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r", "laurel.post_laurel_norm": "laurel_post_norm",
}
# Parameters of no module of their own.
PARAMETERS = {
    "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
    "altup.correct_output_scale": "altup_correct_scale.weight",
}


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draws every parameter anew, by what it is, and rounds it to f16."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.dim() == 1:
            # Scores are taken as they are: factors of queries and keys are small instead.
            values = 0.2 * values + (0.5 if "q_norm" in name or "k_norm" in name else 1.0)
        elif "embed_tokens" in name:
            values *= 0.1
        elif "_coefs" in name:
            values *= 0.5
        elif "modality_router" in name:
            # Its input is divided by the width.
            values *= 8.0
        else:
            values *= 1.0 / math.sqrt(parameter.shape[-1])
        parameter.data = values.half().float()
    for name, buffer in model.named_buffers():
        if name.endswith("layer_scalar"):
            buffer.copy_(0.8 + 0.2 * torch.rand(1, generator=generator))


def tensors(model: torch.nn.Module):
    """All tensors of the GGUF file: (name, values)."""
    stacked = {"model.altup_projections": [], "model.altup_unembed_projections": []}
    for full, parameter in model.named_parameters():
        values, (module, kind) = parameter.detach().numpy(), full.rsplit(".", 1)
        if module.rsplit(".", 1)[0] in stacked:
            stacked[module.rsplit(".", 1)[0]].append(values)
        elif module.startswith("model.layers."):
            layer, module = f"{module}.{kind}".removeprefix("model.layers.").split(".", 1)
            yield f"blk.{layer}.{PARAMETERS.get(module) or NAMES[module.rsplit('.', 1)[0]] + '.weight'}", values
        else:
            yield f"{NAMES[module]}.{kind}", values
    for name, values in zip(("altup_proj.weight", "altup_unembd_proj.weight"), stacked.values()):
        if values:
            yield name, np.stack(values)
    for full, buffer in model.named_buffers():
        if full.endswith("layer_scalar"):
            yield f"blk.{full.split('.')[2]}.layer_output_scale.weight", buffer.numpy()
    if model.config.model_type == "gemma4_text":
        # A quarter of the pairs of the larger heads is rotated.
        size, rotated = 24, int(24 * 0.25 / 2)
        yield "rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (size // 2 - rotated), dtype=np.float32)


def write_gguf(name: str, model: torch.nn.Module) -> None:
    config = model.config
    writer = gguf.GGUFWriter(DATA / f"{name}.gguf", name)
    writer.add_name(f"random {name}")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([kind == SLIDING for kind in config.layer_types])
    writer.add_rope_freq_base(config.rope_parameters[FULL]["rope_theta"])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if name == "gemma4":
        writer.add_feed_forward_length([48] * 3 + [96] * 3)
        writer.add_head_count_kv([2, 2, 1] * 2)
        writer.add_key_length(24)
        writer.add_value_length(24)
        writer.add_rope_dimension_count(24)
        writer.add_key_length_swa(16)
        writer.add_value_length_swa(16)
        writer.add_rope_dimension_count_swa(16)
        writer.add_expert_count(5)
        writer.add_expert_used_count(2)
        writer.add_expert_feed_forward_length(24)
    else:
        writer.add_feed_forward_length(48)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_altup_active_idx(config.altup_active_idx)
        writer.add_altup_num_inputs(config.altup_num_inputs)
        normal = torch.distributions.normal.Normal(0, 1)
        # Files mean the deviation of a sample, as llama.cpp takes it, transformers that of a whole: with the width of
        # real models that is no difference, with 48 values it is one.
        whole = math.sqrt((48 - 1) / 48)
        writer.add_activation_sparsity_scale(
            [whole * normal.icdf(torch.tensor(share)).item() for share in config.activation_sparsity_pattern])
    write_vocabulary(writer)
    for tensor, values in tensors(model):
        is_matrix = values.ndim > 1
        writer.add_tensor(tensor, values.astype(np.float16) if is_matrix else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or VARIANTS:
        build, seed = VARIANTS[chosen]
        model = build().float().eval()
        randomise(model, seed)
        write_gguf(chosen, model)
        store_logits(chosen, seed, model)
