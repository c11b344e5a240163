"""The tiny models: two to six layers of 256 values, more where llama.cpp tells variants by their layers."""
from __future__ import annotations

from tiny_architectures import Spec

def dense(layers, d, n, heads, kv, *, ctx, base=None, hd=None, eps=1e-6, rot=None, ln=False, **extra) -> dict:
    h = {"context_length": ctx, "embedding_length": d, "block_count": layers, "feed_forward_length": n,
         "attention.head_count": heads, "attention.head_count_kv": kv,
         f"attention.layer_norm_{'' if ln else 'rms_'}epsilon": eps}
    if hd:
        h |= {"attention.key_length": hd, "attention.value_length": hd}
    if base:
        h |= {"rope.freq_base": float(base), "rope.dimension_count": rot or hd or d // heads}
    return h | extra


def experts(n, used, width) -> dict:
    return {"expert_count": n, "expert_used_count": used, "expert_feed_forward_length": width}


def sigmoid_routing(scale, groups=None) -> dict:
    """DeepSeek-V3's: sigmoid scores, a bias for the choice only, weights renormalised and scaled, best groups first."""
    h = {"expert_gating_func": 2, "expert_weights_norm": True, "expert_weights_scale": scale}
    return h | ({"expert_group_count": groups[0], "expert_group_used_count": groups[1]} if groups else {})


def mla(rank, rot, nope, v, q_rank=None) -> dict:
    """Keys as files since 2025 have them: one latent KV head, and the lengths of the decompressed heads."""
    h = {"attention.kv_lora_rank": rank, "attention.key_length": rank + rot, "attention.value_length": rank,
         "attention.key_length_mla": nope + rot, "attention.value_length_mla": v, "rope.dimension_count": rot}
    return h | ({"attention.q_lora_rank": q_rank} if q_rank else {})


def yarn(factor, original, **extra) -> dict:
    return {"rope.scaling.type": "yarn", "rope.scaling.factor": factor, "rope.scaling.original_context_length": original} | extra


def ssm(conv, inner, state, rank, groups) -> dict:
    return {"ssm.conv_kernel": conv, "ssm.inner_size": inner, "ssm.state_size": state,
            "ssm.time_step_rank": rank, "ssm.group_count": groups}


TINY_VOCAB = 2048
GPT2_KV = lambda layers, d, heads, ctx: {
    "context_length": ctx, "embedding_length": d, "block_count": layers, "feed_forward_length": 4 * d,
    "attention.head_count": heads, "attention.layer_norm_epsilon": 1e-5}
ENCODER_KV = lambda pooling, layers=3: {
    "context_length": 512, "embedding_length": 256, "block_count": layers, "feed_forward_length": 512,
    "attention.head_count": 4, "attention.layer_norm_epsilon": 1e-12, "attention.causal": False, "pooling_type": pooling}

PRESETS: dict[str, Spec] = {
    "tiny-llama": Spec("llama", dense(3, 256, 512, 8, 2, ctx=512, base=1e4, eps=1e-5), TINY_VOCAB, tied=False),
    "tiny-llama3": Spec("llama", dense(3, 256, 512, 4, 2, ctx=512, base=5e5, hd=64, eps=1e-5), TINY_VOCAB, opts={"llama3_rope": True}),
    "tiny-mixtral": Spec("llama", dense(2, 256, 512, 4, 2, ctx=512, base=1e6, eps=1e-5)
                         | {"expert_count": 4, "expert_used_count": 2}, TINY_VOCAB, tied=False),
    "tiny-mistral3": Spec("mistral3", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, hd=64, eps=1e-5)
                          | {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                             "rope.scaling.original_context_length": 128, "rope.scaling.yarn_beta_fast": 32.0,
                             "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.yarn_log_multiplier": 1.0,
                             "attention.temperature_scale": 0.1}, TINY_VOCAB),
    # Prompts are longer than the original context, so that queries grow.
    "tiny-mistral3-long": Spec("mistral3", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, hd=64, eps=1e-5)
                               | {"rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
                                  "rope.scaling.original_context_length": 16, "rope.scaling.yarn_log_multiplier": 0.5,
                                  "attention.temperature_scale": 0.3}, TINY_VOCAB, opts={"q_gain": 2.0}),
    "tiny-qwen2": Spec("qwen2", dense(3, 256, 512, 4, 2, ctx=512, base=1e6), TINY_VOCAB, opts={"qkv_bias": True}),
    "tiny-qwen3": Spec("qwen3", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, hd=128), TINY_VOCAB, opts={"qk_norm": True}),
    "tiny-qwen3moe": Spec("qwen3moe", dense(2, 256, 512, 4, 2, ctx=512, base=1e6, hd=64) | experts(8, 2, 256), TINY_VOCAB, tied=False, opts={"qk_norm": True}),
    "tiny-gemma2": Spec("gemma2", dense(4, 256, 512, 4, 2, ctx=512, base=1e4, hd=128)
                        | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "attention.sliding_window": 32}, TINY_VOCAB, opts={"logit_std": 0.25}),
    "tiny-gemma3": Spec("gemma3", dense(6, 256, 512, 4, 1, ctx=512, base=1e6, hd=128)
                        | {"attention.sliding_window": 32}, TINY_VOCAB, opts={"qk_norm": True, "logit_std": 0.25}),
    "tiny-phi3": Spec("phi3", dense(3, 256, 512, 4, 4, ctx=512, base=1e4, eps=1e-5)
                      | {"rope.scaling.original_context_length": 512}, TINY_VOCAB, tied=False),
    "tiny-gpt2": Spec("gpt2", GPT2_KV(3, 256, 4, 512), TINY_VOCAB, opts={"ln_bias": True, "biased": True, "fused": True}),
    "tiny-gpt-oss": Spec("gpt-oss", dense(4, 256, 256, 4, 2, ctx=512, base=150000, hd=64, eps=1e-5) | experts(8, 2, 256)
                         | {"attention.sliding_window": 32, "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
                            "rope.scaling.original_context_length": 128}, TINY_VOCAB, tied=False),
    "tiny-qwen3next": Spec("qwen3next", dense(4, 256, 512, 4, 2, ctx=512, base=1e7, hd=64, rot=16) | experts(8, 2, 256)
                           | {"expert_shared_feed_forward_length": 256, "full_attention_interval": 4}
                           | ssm(4, 256, 64, 4, 2), TINY_VOCAB, tied=False, opts={"shared_gate": True}),
    "tiny-qwen35": Spec("qwen35", dense(4, 256, 512, 4, 2, ctx=512, base=1e7, hd=64, rot=32)
                        | {"full_attention_interval": 4, "rope.dimension_sections": [6, 5, 5, 0]}
                        | ssm(4, 256, 64, 4, 2), TINY_VOCAB),
    "tiny-mamba2": Spec("mamba2", {"context_length": 512, "embedding_length": 256, "block_count": 3, "feed_forward_length": 0,
                                   "attention.head_count": 0, "attention.layer_norm_rms_epsilon": 1e-5}
                        | ssm(4, 512, 64, 8, 1), TINY_VOCAB),
    "tiny-granite": Spec("granite", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, eps=1e-5)
                         | {"logit_scale": 2.0, "residual_scale": 0.7, "embedding_scale": 1.5, "attention.scale": 0.1}, TINY_VOCAB),
    "tiny-granite-hybrid": Spec("granitehybrid", dense(4, 256, 512, 4, [0, 0, 2, 0], ctx=512, base=1e4, eps=1e-5)
                                | {"logit_scale": 2.0, "residual_scale": 0.7, "embedding_scale": 1.5, "attention.scale": 0.1,
                                   "rope.scaling.finetuned": False}
                                | ssm(4, 512, 64, 8, 1), TINY_VOCAB),
    "tiny-lfm2": Spec("lfm2", dense(4, 256, 512, 4, [0, 0, 2, 0], ctx=512, base=1e6, eps=1e-5) | {"shortconv.l_cache": 3}, TINY_VOCAB),
    "tiny-olmo2": Spec("olmo2", dense(3, 256, 512, 4, 2, ctx=512, base=5e5), TINY_VOCAB, tied=False, opts={"post_only": True, "qk_norm": "row"}),
    "tiny-olmo3": Spec("olmo2", dense(4, 256, 512, 4, 4, ctx=512, base=5e5) | {"attention.sliding_window": 32} | yarn(8.0, 128),
                       TINY_VOCAB, tied=False, opts={"post_only": True, "qk_norm": "row"}),
    "tiny-smollm3": Spec("smollm3", dense(4, 256, 512, 4, 2, ctx=512, base=5e6), TINY_VOCAB, opts={"q_gain": 2.0}),
    "tiny-starcoder2": Spec("starcoder2", dense(3, 256, 1024, 4, 2, ctx=512, base=1e6, eps=1e-5, ln=True), TINY_VOCAB,
                            opts={"ln_bias": True, "biased": True, "q_gain": 4.0}),
    "tiny-stablelm": Spec("stablelm", dense(3, 256, 512, 4, 4, ctx=512, base=1e4, rot=16, eps=1e-5, ln=True)
                          | {"use_parallel_residual": False}, TINY_VOCAB, tied=False, opts={"ln_bias": True, "qkv_bias": True, "q_gain": 2.0}),
    "tiny-stablelm-parallel": Spec("stablelm", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, rot=16, eps=1e-5, ln=True)
                                   | {"use_parallel_residual": True}, TINY_VOCAB, tied=False,
                                   opts={"ln_bias": True, "qk_norm": "heads", "ffn_norm": None, "qk_mean": 1.5}),
    "tiny-deepseek2": Spec("deepseek2", dense(3, 256, 512, 4, 1, ctx=512, base=1e4) | mla(64, 32, 32, 64, q_rank=96) | experts(16, 4, 128)
                           | {"leading_dense_block_count": 1, "expert_shared_count": 1} | sigmoid_routing(2.5, groups=(4, 2))
                           | yarn(40.0, 128, **{"rope.scaling.yarn_log_multiplier": 0.1}), TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    "tiny-deepseek2-lite": Spec("deepseek2", dense(27, 128, 256, 2, 1, ctx=512, base=1e4) | mla(64, 32, 32, 64) | experts(8, 2, 64)
                                | {"leading_dense_block_count": 1, "expert_shared_count": 2, "expert_weights_scale": 1.0}, TINY_VOCAB, tied=False),
    "tiny-deepseek2-old": Spec("deepseek2", dense(27, 128, 256, 2, 2, ctx=512, base=1e4, rot=32) | experts(8, 2, 64)
                               | {"attention.kv_lora_rank": 64, "attention.key_length": 64, "attention.value_length": 48,
                                  "leading_dense_block_count": 1, "expert_shared_count": 2, "expert_weights_scale": 1.0}
                               | yarn(40.0, 128, **{"rope.scaling.yarn_log_multiplier": 0.0707}), TINY_VOCAB, tied=False),
    "tiny-glm4": Spec("glm4", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, hd=64, rot=32, eps=1e-5), TINY_VOCAB, tied=False,
                      opts={"qkv_bias": True, "fused_ffn": True}),
    "tiny-glm4moe": Spec("glm4moe", dense(4, 256, 512, 4, 2, ctx=512, base=1e6, hd=64, rot=32, eps=1e-5) | experts(8, 2, 128)
                         | {"leading_dense_block_count": 1, "expert_shared_count": 1, "nextn_predict_layers": 1} | sigmoid_routing(1.5), TINY_VOCAB, tied=False,
                         opts={"qkv_bias": True, "qk_norm": True, "probs_bias": True, "ffn_norm": "post_attention_norm"}),
    "tiny-gemma": Spec("gemma", dense(3, 256, 512, 4, 1, ctx=512, base=1e4, hd=128), TINY_VOCAB, opts={"logit_std": 0.05, "final": 30.0, "q_gain": 3.0}),
    "tiny-command-r": Spec("command-r", dense(3, 256, 512, 4, 2, ctx=512, base=8e6, eps=1e-5, ln=True) | {"logit_scale": 2.0},
                           TINY_VOCAB, opts={"ffn_norm": None, "q_gain": 2.0}),
    "tiny-cohere2": Spec("cohere2", dense(4, 256, 512, 4, 2, ctx=512, base=5e4, eps=1e-5, ln=True)
                         | {"logit_scale": 2.0, "attention.sliding_window": 32}, TINY_VOCAB, opts={"ffn_norm": None, "q_gain": 2.0}),
    "tiny-ernie4_5": Spec("ernie4_5", dense(3, 256, 512, 4, 2, ctx=512, base=5e5, hd=64, eps=1e-5), TINY_VOCAB, opts={"q_gain": 2.0}),
    "tiny-ernie4_5-moe": Spec("ernie4_5-moe", dense(3, 256, 512, 4, 2, ctx=512, base=5e5, hd=64, eps=1e-5) | experts(8, 2, 128)
                              | {"expert_shared_feed_forward_length": 256, "leading_dense_block_count": 1, "interleave_moe_layer_step": 1},
                              TINY_VOCAB, opts={"probs_bias": True, "q_gain": 2.0}),
    "tiny-hunyuan-dense": Spec("hunyuan-dense", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, hd=64, eps=1e-5), TINY_VOCAB, opts={"qk_norm": True, "qk_mean": 1.5}),
    "tiny-exaone4": Spec("exaone4", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, eps=1e-5), TINY_VOCAB,
                         opts={"post_only": True, "qk_norm": True, "final": 2.0, "qk_mean": 1.5}),
    "tiny-exaone4-hybrid": Spec("exaone4", dense(64, 64, 128, 2, 1, ctx=512, base=1e6, eps=1e-5)
                                | {"attention.sliding_window": 32, "attention.sliding_window_pattern": 4}, TINY_VOCAB, tied=False,
                                opts={"post_only": True, "qk_norm": True, "qk_mean": 1.5}),
    "tiny-llama4": Spec("llama4", dense(4, 256, 512, 4, 2, ctx=512, base=5e5, hd=64, eps=1e-5) | experts(8, 1, 256)
                        | {"interleave_moe_layer_step": 2}, TINY_VOCAB, tied=False, opts={"shared": 1}),
    "tiny-minicpm": Spec("minicpm", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, eps=1e-5)
                         | {"embedding_scale": 12.0, "residual_scale": 0.8, "logit_scale": 0.25}, TINY_VOCAB, opts={"logit_std": 0.05, "final": 10.0}),
    "tiny-minicpm4-long": Spec("minicpm", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, eps=1e-5)
                               | {"embedding_scale": 12.0, "residual_scale": 0.8, "logit_scale": 0.25, "rope.scaling.type": "longrope",
                                  "rope.scaling.original_context_length": 64}, TINY_VOCAB,
                               opts={"logit_std": 0.05, "final": 10.0, "long_rope": True}),
    "tiny-seed_oss": Spec("seed_oss", dense(3, 256, 512, 4, 2, ctx=512, base=1e7, hd=64), TINY_VOCAB, tied=False,
                          opts={"qkv_bias": True, "ffn_norm": "post_attention_norm"}),
    "tiny-bailingmoe2": Spec("bailingmoe2", dense(3, 256, 512, 4, 2, ctx=512, base=6e5, rot=32, hd=64) | experts(16, 4, 128)
                             | {"leading_dense_block_count": 1, "expert_shared_count": 1, "expert_shared_feed_forward_length": 128}
                             | sigmoid_routing(2.5, groups=(4, 2)), TINY_VOCAB, tied=False, opts={"fused": True, "qk_norm": True, "probs_bias": True}),
    "tiny-qwen2moe": Spec("qwen2moe", dense(2, 256, 512, 4, 2, ctx=512, base=1e6) | experts(8, 2, 128)
                          | {"expert_shared_feed_forward_length": 256}, TINY_VOCAB, tied=False, opts={"qkv_bias": True, "shared_gate": True}),
    "tiny-qwen3vl": Spec("qwen3vl", dense(4, 256, 512, 4, 2, ctx=512, base=5e6, hd=64)
                         | {"rope.dimension_sections": [12, 10, 10, 0], "n_deepstack_layers": 3}, TINY_VOCAB, opts={"qk_norm": True, "qk_mean": 1.5}),
    "tiny-qwen35moe": Spec("qwen35moe", dense(5, 256, 512, 4, 2, ctx=512, base=1e7, hd=64, rot=32) | experts(8, 2, 128)
                           | {"expert_shared_feed_forward_length": 128, "full_attention_interval": 4, "rope.dimension_sections": [6, 5, 5, 0], "nextn_predict_layers": 1}
                           | ssm(4, 256, 64, 4, 2), TINY_VOCAB, tied=False, opts={"shared_gate": True}),
    "tiny-granitemoe": Spec("granitemoe", dense(3, 256, 128, 4, 2, ctx=512, base=1e4, eps=1e-5)
                            | {"expert_count": 8, "expert_used_count": 2, "expert_shared_feed_forward_length": 128, "logit_scale": 0.5,
                               "residual_scale": 0.7, "embedding_scale": 1.5, "attention.scale": 0.1}, TINY_VOCAB, opts={"q_gain": 3.0}),
    "tiny-lfm2moe": Spec("lfm2moe", dense(4, 256, 512, 4, [0, 0, 2, 0], ctx=512, base=1e6, eps=1e-5) | experts(8, 2, 128)
                         | {"shortconv.l_cache": 3, "leading_dense_block_count": 1, "expert_gating_func": 2}, TINY_VOCAB, opts={"probs_bias": True}),
    "tiny-falcon-h1": Spec("falcon-h1", dense(3, 256, 512, 4, 2, ctx=512, base=1e11, hd=64, eps=1e-5) | ssm(4, 512, 64, 8, 1), TINY_VOCAB, tied=False),
    "tiny-nemotron_h": Spec("nemotron_h", dense(6, 256, [0, 512, 0, 0, 512, 0], 4, [0, 0, 0, 2, 0, 0], ctx=512, hd=64, eps=1e-5)
                            | {"attention.layer_norm_epsilon": 1e-5} | ssm(4, 512, 64, 8, 2), TINY_VOCAB, tied=False),
    "tiny-nemotron_h_moe": Spec("nemotron_h_moe", dense(6, 256, [0, 128, 0, 0, 128, 0], 4, [0, 0, 0, 2, 0, 0], ctx=512, hd=64, eps=1e-5)
                                | {"attention.layer_norm_epsilon": 1e-5, "expert_shared_count": 1, "expert_shared_feed_forward_length": 256}
                                | experts(8, 2, 128) | sigmoid_routing(2.5) | ssm(4, 512, 64, 8, 2), TINY_VOCAB, tied=False),
    "tiny-nemotron_h_moe-latent": Spec("nemotron_h_moe", dense(6, 256, [0, 128, 0, 0, 128, 0], 4, [0, 0, 0, 2, 0, 0], ctx=512, hd=64, eps=1e-5)
                                       | {"attention.layer_norm_epsilon": 1e-5, "expert_shared_count": 1, "expert_shared_feed_forward_length": 256,
                                          "moe_latent_size": 96}
                                       | experts(8, 2, 128) | sigmoid_routing(2.5) | ssm(4, 512, 64, 8, 2), TINY_VOCAB, tied=False),
    "tiny-mamba": Spec("mamba", {"context_length": 512, "embedding_length": 256, "block_count": 3, "feed_forward_length": 0,
                                 "attention.head_count": 0, "attention.layer_norm_rms_epsilon": 1e-5,
                                 "ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16, "ssm.time_step_rank": 16}, TINY_VOCAB),
    "tiny-rwkv7": Spec("rwkv7", {"context_length": 512, "embedding_length": 256, "block_count": 3, "feed_forward_length": 512,
                                 "attention.head_count": 0, "attention.layer_norm_epsilon": 1e-5, "wkv.head_size": 64,
                                 "attention.decay_lora_rank": 32, "attention.iclr_lora_rank": 32,
                                 "attention.value_residual_mix_lora_rank": 16, "attention.gate_lora_rank": 64},
                       TINY_VOCAB, tied=False, opts={"ln_bias": True}),
    "tiny-gemma3n": Spec("gemma3n", dense(25, 128, 256, 4, 2, ctx=512, base=1e6, hd=64)
                         | {"attention.sliding_window": 32, "attention.sliding_window_pattern": [i % 5 != 4 for i in range(25)],
                            "attention.shared_kv_layers": 5, "embedding_length_per_layer_input": 256, "altup.num_inputs": 4, "altup.active_idx": 0,
                            "activation_sparsity_scale": [1.6448536] * 10 + [0.0] * 15},
                         512, opts={"qk_mean": 0.35, "logit_std": 0.05, "final": 30.0}),
    "tiny-gemma4": Spec("gemma4", dense(6, 256, [256] * 3 + [512] * 3, 4, 1, ctx=512, base=1e6, hd=128)
                        | {"attention.sliding_window": 32, "attention.sliding_window_pattern": [True, True, False] * 2,
                           "attention.key_length_swa": 64, "attention.value_length_swa": 64, "rope.dimension_count_swa": 64,
                           "rope.freq_base_swa": 1e4, "attention.shared_kv_layers": 3, "embedding_length_per_layer_input": 64,
                           "final_logit_softcapping": 30.0}, TINY_VOCAB, opts={"qk_mean": 0.35, "logit_std": 0.05, "final": 30.0}),
    "tiny-gemma4-moe": Spec("gemma4", dense(6, 256, 256, 4, [2, 2, 1] * 2, ctx=512, base=1e6, hd=128) | experts(8, 2, 128)
                            | {"attention.sliding_window": 32, "attention.sliding_window_pattern": [True, True, False] * 2,
                               "attention.key_length_swa": 64, "attention.value_length_swa": 64, "rope.dimension_count_swa": 64,
                               "rope.freq_base_swa": 1e4, "attention.shared_kv_layers": 0, "embedding_length_per_layer_input": 0,
                               "final_logit_softcapping": 30.0}, TINY_VOCAB,
                            opts={"qk_mean": 0.35, "logit_std": 0.05, "final": 30.0, "k_is_v": True}),
    "tiny-phi4-mini": Spec("phi3", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, rot=48, eps=1e-5)
                           | {"rope.scaling.original_context_length": 512, "rope.scaling.attn_factor": 1.19}, TINY_VOCAB, opts={"long_rope": True}),
    "tiny-phi4-mini-long": Spec("phi3", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, rot=48, eps=1e-5)
                                | {"rope.scaling.original_context_length": 64, "rope.scaling.attn_factor": 1.19}, TINY_VOCAB, opts={"long_rope": True}),
    "tiny-llama4-long": Spec("llama4", dense(4, 64, 128, 2, 1, ctx=16384, base=5e5, hd=32, eps=1e-5) | experts(4, 1, 64)
                             | {"interleave_moe_layer_step": 2}, TINY_VOCAB, tied=False, opts={"shared": 1, "q_gain": 2.0}),
    "tiny-minimax-m2": Spec("minimax-m2", dense(2, 256, 128, 4, 2, ctx=512, base=5e6, hd=64, rot=32) | experts(8, 2, 128) | {"expert_gating_func": 2},
                            TINY_VOCAB, tied=False, opts={"qk_norm": "row", "probs_bias": True}),
    "tiny-glm-dsa": Spec("glm-dsa", dense(3, 256, 512, 4, 1, ctx=512, base=1e6) | mla(64, 32, 32, 64, q_rank=96) | experts(8, 2, 128)
                         | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.indexer.head_count": 4,
                            "attention.indexer.key_length": 64, "attention.indexer.top_k": 16} | sigmoid_routing(2.5),
                         TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    "tiny-deepseek32": Spec("deepseek32", dense(3, 256, 512, 4, 1, ctx=512, base=1e4) | mla(64, 32, 32, 64, q_rank=96) | experts(16, 4, 128)
                            | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.indexer.head_count": 4,
                               "attention.indexer.key_length": 64, "attention.indexer.top_k": 16} | sigmoid_routing(2.5, groups=(4, 2))
                            | yarn(40.0, 128, **{"rope.scaling.yarn_log_multiplier": 0.1}), TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    # With so many heads no two positions have the same score: of those that no head likes (0), which are common with
    # four, llama.cpp takes what a heap happens to leave.
    "tiny-glm-dsa-heads": Spec("glm-dsa", dense(3, 256, 512, 4, 1, ctx=512, base=1e6) | mla(64, 32, 32, 64, q_rank=96) | experts(8, 2, 128)
                               | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.indexer.head_count": 24,
                                  "attention.indexer.key_length": 64, "attention.indexer.top_k": 16,
                                  "attention.indexer.types": [True, False, True]} | sigmoid_routing(2.5),
                               TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    "tiny-deepseek32-heads": Spec("deepseek32", dense(3, 256, 512, 4, 1, ctx=512, base=1e4) | mla(64, 32, 32, 64, q_rank=96) | experts(16, 4, 128)
                                  | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.indexer.head_count": 24,
                                     "attention.indexer.key_length": 64, "attention.indexer.top_k": 16} | sigmoid_routing(2.5, groups=(4, 2))
                                  | yarn(40.0, 128, **{"rope.scaling.yarn_log_multiplier": 0.1}), TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    "tiny-mistral4": Spec("mistral4", dense(3, 256, 512, 4, 1, ctx=512, base=1e4) | mla(64, 32, 32, 64, q_rank=96) | experts(8, 2, 128)
                          | {"leading_dense_block_count": 0, "expert_shared_count": 1, "expert_gating_func": 1, "expert_weights_norm": True,
                             "expert_weights_scale": 1.0, "attention.temperature_scale": 0.1, "attention.temperature_length": 16}
                          | yarn(16.0, 128, **{"rope.scaling.yarn_log_multiplier": 0.1}), TINY_VOCAB, tied=False),
    "tiny-laguna": Spec("laguna", dense(4, 256, 512, [4, 6, 6, 6], 2, ctx=512, base=5e5, hd=64, rot=32) | experts(8, 2, 128)
                        | {"attention.sliding_window": 32, "rope.freq_base_swa": 1e4, "rope.dimension_count_swa": 64, "leading_dense_block_count": 1,
                           "expert_shared_feed_forward_length": 128} | sigmoid_routing(2.5) | yarn(8.0, 128), TINY_VOCAB, tied=False,
                        opts={"qk_norm": True, "probs_bias": True, "attn_gate": "head"}),
    "tiny-hy_v3": Spec("hy_v3", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, hd=64, eps=1e-5) | experts(8, 2, 128)
                       | {"leading_dense_block_count": 1, "expert_shared_feed_forward_length": 128} | sigmoid_routing(2.5), TINY_VOCAB, tied=False,
                       opts={"qk_norm": True, "probs_bias": True}),
    "tiny-kimi-linear": Spec("kimi-linear", dense(4, 256, 512, 4, [0, 0, 0, 1], ctx=512) | mla(64, 32, 32, 64) | experts(8, 2, 128)
                             | {"leading_dense_block_count": 1, "expert_shared_count": 1, "ssm.conv_kernel": 4, "kda.head_dim": 64}
                             | sigmoid_routing(2.446), TINY_VOCAB, tied=False, opts={"probs_bias": True}),
    "tiny-step35": Spec("step35", dense(4, 256, 512, [4, 6, 6, 6], 2, ctx=512, base=5e6, hd=64) | experts(8, 2, 128)
                        | {"attention.sliding_window": 32, "attention.sliding_window_pattern": [False, True, True, True], "rope.freq_base_swa": 1e4,
                           "leading_dense_block_count": 1, "expert_shared_feed_forward_length": 128, "swiglu_clamp_exp": [0.0, 0.0, 0.7, 0.7],
                           "swiglu_clamp_shexp": [0.0, 0.0, 0.0, 0.7]} | sigmoid_routing(3.0), TINY_VOCAB, tied=False,
                        opts={"qk_norm": True, "probs_bias": True, "attn_gate": "head"}),
    "tiny-mimo2": Spec("mimo2", dense(4, 256, 512, 4, [1, 2, 2, 1], ctx=512, base=5e6, rot=32) | experts(8, 2, 128)
                       | {"attention.key_length": 96, "attention.value_length": 64, "attention.sliding_window": 32, "attention.value_scale": 0.7,
                          "attention.sliding_window_pattern": [False, True, True, False], "rope.freq_base_swa": 1e4, "leading_dense_block_count": 1,
                          "expert_gating_func": 2}, TINY_VOCAB, tied=False, opts={"probs_bias": True, "sinks": True}),
    "tiny-exaone-moe": Spec("exaone-moe", dense(4, 256, 512, 4, 2, ctx=512, base=1e6, hd=64, eps=1e-5) | experts(8, 2, 128)
                            | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.sliding_window": 32} | sigmoid_routing(2.5),
                            TINY_VOCAB, tied=False, opts={"qk_norm": True, "probs_bias": True}),
    "tiny-afmoe": Spec("afmoe", dense(4, 256, 512, 4, 2, ctx=512, base=1e4, hd=64, eps=1e-5) | experts(8, 2, 128)
                       | {"leading_dense_block_count": 1, "expert_shared_count": 1, "attention.sliding_window": 32} | sigmoid_routing(2.8),
                       TINY_VOCAB, tied=False, opts={"qk_norm": True, "probs_bias": True, "attn_gate": "full"}),
    "tiny-hunyuan-moe": Spec("hunyuan-moe", dense(3, 256, 128, 4, 2, ctx=512, base=1e4, hd=64, eps=1e-5) | experts(8, 2, 128)
                             | {"expert_shared_feed_forward_length": 128}, TINY_VOCAB, opts={"qk_norm": True, "qk_mean": 1.5}),
    "tiny-dots1": Spec("dots1", dense(3, 256, 512, 4, 4, ctx=512, base=1e7, hd=64, eps=1e-5) | experts(8, 2, 128)
                       | {"leading_dense_block_count": 1, "expert_shared_count": 2} | sigmoid_routing(2.5), TINY_VOCAB, tied=False,
                       opts={"qk_norm": True, "probs_bias": True}),
    "tiny-olmoe": Spec("olmoe", dense(2, 256, 128, 4, 4, ctx=512, base=1e4, eps=1e-5) | {"expert_count": 8, "expert_used_count": 2}, TINY_VOCAB,
                       tied=False, opts={"qk_norm": "row"}),
    "tiny-phimoe": Spec("phimoe", dense(2, 256, 128, 4, 2, ctx=512, base=1e4, eps=1e-5) | {"expert_count": 8, "expert_used_count": 2,
                        "rope.scaling.original_context_length": 512}, TINY_VOCAB, tied=False,
                        opts={"ln_bias": True, "qkv_bias": True, "out_bias": True, "head_bias": True}),
    # llama.cpp (build 11669) does not read this family's epsilon and uses 0
    "tiny-qwen2vl": Spec("qwen2vl", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, eps=1e-12) | {"rope.dimension_sections": [8, 12, 12, 0]}, TINY_VOCAB,
                         opts={"qkv_bias": True, "q_gain": 2.0}),
    "tiny-qwen3vlmoe": Spec("qwen3vlmoe", dense(4, 256, 512, 4, 2, ctx=512, base=5e6, hd=64) | experts(8, 2, 128)
                            | {"rope.dimension_sections": [12, 10, 10, 0], "n_deepstack_layers": 3}, TINY_VOCAB, tied=False, opts={"qk_norm": True}),
    "tiny-internlm2": Spec("internlm2", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, eps=1e-5), TINY_VOCAB, tied=False),
    "tiny-phi2": Spec("phi2", dense(3, 256, 512, 4, 4, ctx=512, base=1e4, rot=32, eps=1e-5, ln=True), TINY_VOCAB, tied=False,
                      opts={"ln_bias": True, "biased": True, "parallel": True, "head_bias": True, "q_gain": 2.0}),
    "tiny-gptneox": Spec("gptneox", dense(3, 256, 512, 4, 4, ctx=512, base=1e4, rot=16, eps=1e-5, ln=True) | {"use_parallel_residual": True},
                         TINY_VOCAB, tied=False, opts={"ln_bias": True, "biased": True, "fused": True}),
    "tiny-falcon": Spec("falcon", dense(3, 256, 512, 4, 1, ctx=512, base=1e4, eps=1e-5, ln=True), TINY_VOCAB, tied=False,
                        opts={"ln_bias": True, "parallel": True, "fused": True}),
    "tiny-nemotron": Spec("nemotron", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, rot=32, eps=1e-5, ln=True), TINY_VOCAB, tied=False,
                          opts={"ln_bias": True, "q_gain": 2.0}),
    "tiny-arcee": Spec("arcee", dense(3, 256, 512, 4, 2, ctx=512, base=1e4, hd=64, eps=1e-5), TINY_VOCAB, tied=False, opts={"q_gain": 2.0}),
    "tiny-apertus": Spec("apertus", dense(3, 256, 512, 4, 2, ctx=512, base=1.2e7, hd=64, eps=1e-5)
                         | {"xielu.alpha_n": [0.8, 0.7, 0.9], "xielu.alpha_p": [0.8, 0.9, 0.7], "xielu.beta": [0.5] * 3, "xielu.eps": [-1e-6] * 3},
                         TINY_VOCAB, tied=False, opts={"qk_norm": True, "qk_mean": 1.5}),
    "tiny-jamba": Spec("jamba", dense(4, 256, 512, 4, [0, 0, 2, 0], ctx=512) | {"expert_count": 4, "expert_used_count": 2}
                       | {"ssm.conv_kernel": 4, "ssm.inner_size": 512, "ssm.state_size": 16, "ssm.time_step_rank": 16}, TINY_VOCAB, tied=False,
                       opts={"moe_step": 2}),
    # ---- embedding models: pooling_type 1 is the mean, 2 the first token, 3 the last
    "tiny-bert": Spec("bert", ENCODER_KV(2), TINY_VOCAB, opts={"ln_bias": True, "tokenizer": "wordpiece"}),
    "tiny-nomic-bert": Spec("nomic-bert", ENCODER_KV(1) | {"rope.freq_base": 1000.0}, TINY_VOCAB, opts={"ln_bias": True, "tokenizer": "wordpiece"}),
    "tiny-nomic-bert-moe": Spec("nomic-bert-moe", ENCODER_KV(1) | {"rope.freq_base": 10000.0, "moe_every_n_layers": 2, "expert_count": 4, "expert_used_count": 2},
                                TINY_VOCAB, opts={"ln_bias": True}),
    "tiny-jina-bert-v2": Spec("jina-bert-v2", ENCODER_KV(1), TINY_VOCAB, opts={"ln_bias": True}),
    "tiny-jina-bert-v3": Spec("jina-bert-v3", ENCODER_KV(1) | {"rope.freq_base": 20000.0}, TINY_VOCAB, opts={"ln_bias": True}),
    "tiny-modern-bert": Spec("modern-bert", ENCODER_KV(1, layers=4) | {"rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0, "attention.sliding_window": 32,
                                                                       "attention.sliding_window_pattern": 3}, TINY_VOCAB),
    "tiny-gemma-embedding": Spec("gemma-embedding", dense(6, 256, 512, 4, 1, ctx=512, base=1e6, hd=128)
                                 | {"attention.sliding_window": 32, "pooling_type": 1, "dense_2_feat_in": 256, "dense_2_feat_out": 512,
                                    "dense_3_feat_in": 512, "dense_3_feat_out": 256}, TINY_VOCAB, opts={"qk_norm": True, "logit_std": 1.0}),
    "tiny-qwen3-embedding": Spec("qwen3", dense(3, 256, 512, 4, 2, ctx=512, base=1e6, hd=128) | {"pooling_type": 3}, TINY_VOCAB, opts={"qk_norm": True}),
}
