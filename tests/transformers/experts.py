"""Experts and latent attention, from the parameters of transformers to the tensors of GGUF files."""
import numpy as np
import torch

NAMES = {
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp", "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
}
COLUMNS_FIRST = ("gpt_oss", "llama4_text")
CHOICE = "mlp.gate.e_score_correction_bias"


def adjust(model: torch.nn.Module, generator: torch.Generator) -> None:
    """The choice's bias, which is no parameter, and the norms of latent vectors, which have an epsilon of their own."""
    for name, buffer in model.named_buffers():
        if name.endswith(CHOICE):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
    for name, module in model.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            module.variance_epsilon = model.config.rms_norm_eps


def inputs(model: torch.nn.Module, parameter: torch.nn.Parameter) -> int:
    """Columns of an expert's matrix: GPT-OSS and Llama 4 have them before the rows."""
    return parameter.shape[1 if model.config.model_type in COLUMNS_FIRST else 2]


def parts(config, name: str, values: np.ndarray):
    """The tensors of a layer that a parameter becomes, where it is one of these; none otherwise."""
    if name == "self_attn.sinks":
        return [("attn_sinks.weight", values)]
    if name == "self_attn.kv_b_proj.weight":
        heads, plain, value = config.num_attention_heads, config.qk_nope_head_dim, config.v_head_dim
        each = values.reshape(heads, plain + value, -1)
        return [("attn_k_b.weight", each[:, :plain].swapaxes(1, 2)), ("attn_v_b.weight", each[:, plain:])]
    if not name.startswith("mlp.experts."):
        return None
    name = name.removeprefix("mlp.experts.")
    kind = "bias" if name.endswith("bias") else "weight"
    interleaved = config.model_type == "gpt_oss"
    if config.model_type in COLUMNS_FIRST and kind == "weight":
        values = values.swapaxes(1, 2)
    if name.startswith("down_proj"):
        return [(f"ffn_down_exps.{kind}", values)]
    half = values.shape[1] // 2
    gate, up = (values[:, 0::2], values[:, 1::2]) if interleaved else (values[:, :half], values[:, half:])
    return [(f"ffn_gate_exps.{kind}", gate), (f"ffn_up_exps.{kind}", up)]
