"""The tensors of each architecture, as functions of its hyper-parameters: what the tiny models are made of."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Callable, Iterator

import numpy as np

@dataclass
class T:
    """One tensor. `shape` is in GGUF order (fastest dimension first)."""
    name: str
    shape: tuple[int, ...]
    init: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    matrix: bool = True  # False: keep as F32 whatever the output type


def normal(std: float):
    return lambda g, s: g.standard_normal(s, dtype=np.float32) * np.float32(std)


def around(mean: float, spread: float):
    return lambda g, s: np.float32(mean) + np.float32(spread) * g.standard_normal(s, dtype=np.float32)


def constant(values):
    arr = np.asarray(values, dtype=np.float32)
    return lambda g, s: arr.reshape(s)


def mat(name: str, n_in: int, n_out: int, *lead: int, gain: float = 1.0) -> T:
    return T(f"{name}.weight", (n_in, n_out, *lead), normal(gain / math.sqrt(n_in)))


def norm(name: str, *shape: int, mean: float = 1.0) -> T:
    return T(f"{name}.weight", shape, around(mean, 0.1), matrix=False)


def bias(name: str, *shape: int, std: float = 0.1) -> T:
    return T(f"{name}.bias", shape, normal(std), matrix=False)


def embed(n_embd: int, n_vocab: int, name: str = "token_embd", logit_std: float = 1.0) -> T:
    return T(f"{name}.weight", (n_embd, n_vocab), normal(logit_std / math.sqrt(n_embd)))


# ---------------------------------------------------------------- architectures

@dataclass
class Spec:
    arch: str
    kv: dict                       # keys without the "<arch>." prefix
    vocab: int
    tied: bool = True              # no separate output.weight
    opts: dict = field(default_factory=dict)


def head_dims(kv: dict, layer: int) -> tuple[int, int, int, int]:
    """Query heads, KV heads, and the sizes of a key and a value head."""
    at = lambda n: n[layer] if isinstance(n, list) else n
    n_head = at(kv["attention.head_count"])
    hd = kv.get("attention.key_length", kv["embedding_length"] // n_head)
    return n_head, at(kv.get("attention.head_count_kv", n_head)), hd, kv.get("attention.value_length", hd)


def top(s: Spec) -> Iterator[T]:
    d = s.kv["embedding_length"]
    # A tied embedding echoes the input token unless it is small beside the block outputs.
    yield embed(d, s.vocab, logit_std=s.opts.get("logit_std", 1.0))
    if not s.tied:
        yield embed(d, s.vocab, "output", logit_std=3.0)


def norms(s: Spec, *names: str) -> Iterator[T]:
    """Norms over the model's width: RMS norms, or with opts["ln_bias"] LayerNorms with a bias."""
    d = s.kv["embedding_length"]
    for x in names:
        yield norm(x, d, mean=s.opts.get("final", 1.0) if x == "output_norm" else 1.0)
        if s.opts.get("ln_bias"):
            yield bias(x, d)


def attention(p: str, s: Spec, *, fused=False, qkv_bias=False, out_bias=False, qk_norm=False, gated=False) -> Iterator[T]:
    """qk_norm: True (one weight for every head), "heads" (one per head) or "row" (a norm over all heads at once).
    gated: the query rows carry a gate. opts: attn_gate ("head" or "full": a gate of its own), q_gain, qk_mean (sharper attention)."""
    d = s.kv["embedding_length"]
    n_head, n_kv, hd, hv = head_dims(s.kv, int(p.split(".")[1]))
    dq, dk, dv = n_head * hd, n_kv * hd, n_kv * hv
    if fused:
        yield mat(f"{p}.attn_qkv", d, dq + dk + dv)
        if qkv_bias:
            yield bias(f"{p}.attn_qkv", dq + dk + dv)
    else:
        for x, n in (("q", dq * (2 if gated else 1)), ("k", dk), ("v", dv)):
            yield mat(f"{p}.attn_{x}", d, n, gain=s.opts.get("q_gain", 1.0) if x == "q" else 1.0)
            if qkv_bias:
                yield bias(f"{p}.attn_{x}", n)
    yield mat(f"{p}.attn_output", n_head * hv, d)
    if out_bias:
        yield bias(f"{p}.attn_output", d)
    if qk_norm:
        for x, n in (("q", n_head), ("k", n_kv)):
            shape = {True: (hd,), "heads": (hd, n), "row": (n * hd,)}[qk_norm]
            yield norm(f"{p}.attn_{x}_norm", *shape, mean=s.opts.get("qk_mean", 1.0))
    if gate := s.opts.get("attn_gate"):
        yield mat(f"{p}.attn_gate", d, n_head if gate == "head" else n_head * hv)


def ffn(p: str, d: int, n: int, suffix: str = "") -> Iterator[T]:
    yield mat(f"{p}.ffn_gate{suffix}", d, n)
    yield mat(f"{p}.ffn_up{suffix}", d, n)
    yield mat(f"{p}.ffn_down{suffix}", n, d)


def plain_ffn(p: str, d: int, n: int, suffix: str = "", *lead: int, biased: bool = False) -> Iterator[T]:
    """Without a gate."""
    for x, n_in, n_out in (("up", d, n), ("down", n, d)):
        yield mat(f"{p}.ffn_{x}{suffix}", n_in, n_out, *lead)
        if biased:
            yield bias(f"{p}.ffn_{x}{suffix}", n_out)


def moe(p: str, s: Spec) -> Iterator[T]:
    d, e = s.kv["embedding_length"], s.kv["expert_count"]
    n = s.kv.get("expert_feed_forward_length", s.kv.get("feed_forward_length"))
    yield T(f"{p}.ffn_gate_inp.weight", (d, e), normal(1 / math.sqrt(d)), matrix=False)
    if s.opts.get("probs_bias"):                           # hy_v3 files leave ".bias" off the name
        yield T(f"{p}.exp_probs_b{'' if s.arch == 'hy_v3' else '.bias'}", (e,), normal(0.1), matrix=False)
    yield mat(f"{p}.ffn_gate_exps", d, n, e)
    yield mat(f"{p}.ffn_up_exps", d, n, e)
    yield mat(f"{p}.ffn_down_exps", n, d, e)
    shared = s.kv.get("expert_shared_feed_forward_length", n * s.kv.get("expert_shared_count", s.opts.get("shared", 0)))
    if shared:
        if s.opts.get("shared_gate"):
            yield T(f"{p}.ffn_gate_inp_shexp.weight", (d,), normal(1 / math.sqrt(d)), matrix=False)
        yield from ffn(p, d, shared, "_shexp")


def feed_forward(p: str, s: Spec, i: int) -> Iterator[T]:
    """Experts or a dense block, whichever layer i has."""
    step = s.kv.get("interleave_moe_layer_step", s.opts.get("moe_step", 1))
    if s.kv.get("expert_count") and i >= s.kv.get("leading_dense_block_count", 0) and (i + 1) % step == 0:
        yield from moe(p, s)
    else:
        yield from ffn(p, s.kv["embedding_length"], s.kv["feed_forward_length"])


def nextn(p: str, s: Spec, i: int) -> Iterator[T]:
    """What the trailing multi-token-prediction blocks add; plain decoding ignores these blocks."""
    d = s.kv["embedding_length"]
    if i >= s.kv["block_count"] - s.kv.get("nextn_predict_layers", 0):
        yield mat(f"{p}.nextn.eh_proj", 2 * d, d)
        for x in ("enorm", "hnorm", "shared_head_norm"):
            yield norm(f"{p}.nextn.{x}", d)


def llama3_rope_factors(n_rot: int, base: float, factor=32.0, low=1.0, high=4.0, orig_ctx=8192) -> T:
    inv = 1.0 / base ** (np.arange(0, n_rot, 2, dtype=np.float64) / n_rot)
    wavelen = 2 * math.pi / inv
    smooth = np.clip((orig_ctx / wavelen - low) / (high - low), 0, 1)
    return T("rope_freqs.weight", (n_rot // 2,), constant(1.0 / ((1 - smooth) / factor + smooth)), matrix=False)


def long_rope_factors(s: Spec) -> Iterator[T]:
    """With the option long_rope: of two tables, the one that the context in use asks for."""
    if s.opts.get("long_rope"):
        for x, most in (("long", 40.0), ("short", 1.5)):
            yield T(f"rope_factors_{x}.weight", (s.kv["rope.dimension_count"] // 2,),
                    lambda g, sh, most=most: np.sort(g.uniform(1, most, sh)).astype(np.float32), matrix=False)


def arch_llama(s: Spec) -> Iterator[T]:
    """Pre-norm decoders. opts: qkv_bias, out_bias, qk_norm, fused, ln_bias, sinks (on the sliding layers), head_bias,
    ffn_norm (its name; None: attention and FFN in parallel)."""
    yield from top(s)
    if s.opts.get("head_bias"):
        yield bias("output", s.vocab)
    yield from norms(s, "output_norm")
    if s.opts.get("llama3_rope"):
        yield llama3_rope_factors(s.kv["rope.dimension_count"], s.kv["rope.freq_base"])
    yield from long_rope_factors(s)
    ffn_norm = s.opts.get("ffn_norm", "ffn_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield from norms(s, f"{p}.attn_norm")
        yield from attention(p, s, **{k: s.opts[k] for k in ("fused", "qkv_bias", "out_bias", "qk_norm") if k in s.opts})
        if s.opts.get("sinks") and s.kv["attention.sliding_window_pattern"][i]:
            yield T(f"{p}.attn_sinks.weight", (s.kv["attention.head_count"],), normal(1.0), matrix=False)
        if ffn_norm:
            yield from norms(s, f"{p}.{ffn_norm}")
        yield from feed_forward(p, s, i)
        yield from nextn(p, s, i)


def arch_gemma(s: Spec) -> Iterator[T]:
    """Blocks with norms after attention and FFN: gemma2, gemma3 (qk_norm), glm4 (fused_ffn), olmo2, exaone4 (post_only), afmoe.
    For gemma, GGUF stores norm weights with the +1 already folded in."""
    d, n = s.kv["embedding_length"], s.kv["feed_forward_length"]
    pre = not s.opts.get("post_only")
    yield from top(s)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        if pre:
            yield norm(f"{p}.attn_norm", d)
        yield from attention(p, s, qkv_bias=s.opts.get("qkv_bias", False), qk_norm=s.opts.get("qk_norm", False))
        yield norm(f"{p}.post_attention_norm", d)
        if pre:
            yield norm(f"{p}.ffn_norm", d)
        if s.opts.get("fused_ffn"):
            yield mat(f"{p}.ffn_up", d, 2 * n)     # gate and up fused
            yield mat(f"{p}.ffn_down", n, d)
        else:
            yield from feed_forward(p, s, i)
        yield norm(f"{p}.post_ffw_norm", d)
    if "dense_2_feat_out" in s.kv:                 # the two projections of a sentence-transformers model
        yield mat("dense_2", d, s.kv["dense_2_feat_out"])
        yield mat("dense_3", s.kv["dense_3_feat_in"], d)


def latent_attention(p: str, s: Spec) -> Iterator[T]:
    """Multi-head latent attention: keys and values come from one latent vector per token."""
    d, heads = s.kv["embedding_length"], s.kv["attention.head_count"]
    rot, rank, q_rank = s.kv["rope.dimension_count"], s.kv["attention.kv_lora_rank"], s.kv.get("attention.q_lora_rank")
    split = "attention.key_length_mla" in s.kv             # older files keep one attn_kv_b
    k, v = (s.kv[f"attention.{x}_length{'_mla' if split else ''}"] for x in ("key", "value"))
    nope = k - rot
    if q_rank:
        yield mat(f"{p}.attn_q_a", d, q_rank)
        yield norm(f"{p}.attn_q_a_norm", q_rank)
        yield mat(f"{p}.attn_q_b", q_rank, heads * k)
    else:
        yield mat(f"{p}.attn_q", d, heads * k)
    yield mat(f"{p}.attn_kv_a_mqa", d, rank + rot)
    yield norm(f"{p}.attn_kv_a_norm", rank)
    if split:
        yield mat(f"{p}.attn_k_b", nope, rank, heads, gain=math.sqrt(nope / rank))
        yield mat(f"{p}.attn_v_b", rank, v, heads)
    else:
        yield mat(f"{p}.attn_kv_b", rank, heads * (nope + v))
    yield mat(f"{p}.attn_output", heads * v, d)
    if n := s.kv.get("attention.indexer.head_count"):      # chooses the positions to attend to
        size = s.kv["attention.indexer.key_length"]
        yield norm(f"{p}.indexer.k_norm", size)
        yield bias(f"{p}.indexer.k_norm", size)
        yield mat(f"{p}.indexer.proj", d, n)
        yield mat(f"{p}.indexer.attn_k", d, size)
        yield mat(f"{p}.indexer.attn_q_b", q_rank, n * size)


def kimi_delta(p: str, s: Spec) -> Iterator[T]:
    """Kimi delta attention: a delta rule whose decay is a vector per head."""
    d, heads, hd, k = s.kv["embedding_length"], s.kv["attention.head_count"], s.kv["kda.head_dim"], s.kv["ssm.conv_kernel"]
    for x in "qkv":
        yield mat(f"{p}.attn_{x}", d, heads * hd)
        yield T(f"{p}.ssm_conv1d_{x}.weight", (k, 1, heads * hd), normal(0.5), matrix=False)
    for x in "fg":
        yield mat(f"{p}.ssm_{x}_a", d, hd)
        yield mat(f"{p}.ssm_{x}_b", hd, heads * hd)
    yield mat(f"{p}.ssm_beta", d, heads)
    yield T(f"{p}.ssm_a", (1, heads), lambda g, sh: -g.uniform(0.5, 8, sh).astype(np.float32), matrix=False)
    yield T(f"{p}.ssm_dt.bias", (heads * hd,), around(-2.0, 1.0), matrix=False)
    yield norm(f"{p}.ssm_norm", hd)
    yield mat(f"{p}.attn_output", heads * hd, d)


def arch_deepseek2(s: Spec) -> Iterator[T]:
    """deepseek2, mistral4, deepseek32 and glm-dsa (with an indexer), kimi-linear (most layers linear)."""
    yield from top(s)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield from norms(s, f"{p}.attn_norm")
        n_kv = s.kv["attention.head_count_kv"]
        yield from kimi_delta(p, s) if isinstance(n_kv, list) and not n_kv[i] else latent_attention(p, s)
        yield from norms(s, f"{p}.ffn_norm")
        yield from feed_forward(p, s, i)


def arch_phi3(s: Spec) -> Iterator[T]:
    d, n = s.kv["embedding_length"], s.kv["feed_forward_length"]
    yield from top(s)
    yield norm("output_norm", d)
    yield from long_rope_factors(s)
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        yield from attention(p, s, fused=True)
        yield norm(f"{p}.ffn_norm", d)
        yield mat(f"{p}.ffn_up", d, 2 * n)     # gate and up fused
        yield mat(f"{p}.ffn_down", n, d)


def arch_gpt2(s: Spec) -> Iterator[T]:
    """FFN without a gate: gpt2, starcoder2, phi2, gptneox, falcon, nemotron, arcee, apertus.
    opts: biased (the linear layers), parallel (attention and FFN from one norm), fused, qk_norm, ln_bias, head_bias."""
    d, n, biased = s.kv["embedding_length"], s.kv["feed_forward_length"], s.opts.get("biased", False)
    yield from top(s)
    if s.opts.get("head_bias"):
        yield bias("output", s.vocab)
    if s.arch == "gpt2":
        yield T("position_embd.weight", (d, s.kv["context_length"]), normal(0.5 / math.sqrt(d)), matrix=False)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield from norms(s, f"{p}.attn_norm", *(() if s.opts.get("parallel") else (f"{p}.ffn_norm",)))
        yield from attention(p, s, fused=s.opts.get("fused", False), qkv_bias=biased, out_bias=biased, qk_norm=s.opts.get("qk_norm", False))
        yield from plain_ffn(p, d, n, biased=biased)


def arch_gpt_oss(s: Spec) -> Iterator[T]:
    d, e, n = s.kv["embedding_length"], s.kv["expert_count"], s.kv["expert_feed_forward_length"]
    yield from top(s)
    yield norm("output_norm", d)
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        yield norm(f"{p}.post_attention_norm", d)
        yield from attention(p, s, qkv_bias=True, out_bias=True)
        yield T(f"{p}.attn_sinks.weight", (s.kv["attention.head_count"],), normal(1.0), matrix=False)
        yield from moe(p, s)
        yield bias(f"{p}.ffn_gate_inp", e)
        yield bias(f"{p}.ffn_gate_exps", n, e)
        yield bias(f"{p}.ffn_up_exps", n, e)
        yield bias(f"{p}.ffn_down_exps", d, e)


def delta_net(p: str, s: Spec, fused_ba: bool) -> Iterator[T]:
    """Gated delta net (qwen3next, qwen35) linear-attention block."""
    d = s.kv["embedding_length"]
    hk, nk, nv = s.kv["ssm.state_size"], s.kv["ssm.group_count"], s.kv["ssm.time_step_rank"]
    key, val = hk * nk, hk * nv
    yield mat(f"{p}.attn_qkv", d, 2 * key + val)
    yield mat(f"{p}.attn_gate", d, val)
    yield T(f"{p}.ssm_conv1d.weight", (s.kv["ssm.conv_kernel"], 2 * key + val), normal(0.5), matrix=False)
    yield T(f"{p}.ssm_dt.bias", (nv,), around(-2.0, 1.0), matrix=False)
    yield T(f"{p}.ssm_a", (nv,), lambda g, sh: -g.uniform(0.5, 8, sh).astype(np.float32), matrix=False)
    if fused_ba:
        yield mat(f"{p}.ssm_ba", d, 2 * nv)
    else:
        yield mat(f"{p}.ssm_beta", d, nv)
        yield mat(f"{p}.ssm_alpha", d, nv)
    yield norm(f"{p}.ssm_norm", hk)
    yield mat(f"{p}.ssm_out", val, d)


def arch_qwen_next(s: Spec) -> Iterator[T]:
    """qwen3next, qwen35moe (MoE) and qwen35 (dense): every k-th layer full attention, the rest gated delta net."""
    d = s.kv["embedding_length"]
    every = s.kv["full_attention_interval"]
    yield from top(s)
    yield norm("output_norm", d)
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        yield norm(f"{p}.post_attention_norm", d)
        if (i + 1) % every == 0 or i >= s.kv["block_count"] - s.kv.get("nextn_predict_layers", 0):
            yield from attention(p, s, qk_norm=True, gated=True)
        else:
            yield from delta_net(p, s, fused_ba=s.arch == "qwen3next")
        yield from feed_forward(p, s, i)
        yield from nextn(p, s, i)


def mamba2_mixer(p: str, s: Spec) -> Iterator[T]:
    d, k = s.kv["embedding_length"], s.kv["ssm.conv_kernel"]
    inner, state = s.kv["ssm.inner_size"], s.kv["ssm.state_size"]
    heads, groups = s.kv["ssm.time_step_rank"], s.kv["ssm.group_count"]
    conv = inner + 2 * groups * state
    yield mat(f"{p}.ssm_in", d, inner + conv + heads)
    yield T(f"{p}.ssm_conv1d.weight", (k, conv), normal(0.5), matrix=False)
    yield bias(f"{p}.ssm_conv1d", conv)
    yield T(f"{p}.ssm_dt.bias", (heads,), around(-2.0, 1.0), matrix=False)
    yield T(f"{p}.ssm_a", (1, heads), lambda g, sh: -g.uniform(0.5, 8, sh).astype(np.float32), matrix=False)
    yield T(f"{p}.ssm_d", (1, heads), around(1.0, 0.1), matrix=False)
    yield norm(f"{p}.ssm_norm", inner // groups, groups)
    yield mat(f"{p}.ssm_out", inner, d)


def arch_mamba2(s: Spec) -> Iterator[T]:
    d = s.kv["embedding_length"]
    yield from top(s)
    yield norm("output_norm", d)
    for i in range(s.kv["block_count"]):
        yield norm(f"blk.{i}.attn_norm", d)
        yield from mamba2_mixer(f"blk.{i}", s)


def arch_granite_hybrid(s: Spec) -> Iterator[T]:
    d = s.kv["embedding_length"]
    yield from top(s)
    yield norm("output_norm", d)
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        if s.kv["attention.head_count_kv"][i] == 0:
            yield from mamba2_mixer(p, s)
        else:
            yield from attention(p, s)
        yield norm(f"{p}.ffn_norm", d)
        yield from ffn(p, d, s.kv["feed_forward_length"])


def arch_lfm2(s: Spec) -> Iterator[T]:
    d = s.kv["embedding_length"]
    yield embed(d, s.vocab)
    yield norm("token_embd_norm", d)
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        if s.kv["attention.head_count_kv"][i] == 0:
            yield T(f"{p}.shortconv.conv.weight", (s.kv["shortconv.l_cache"], d), normal(0.5), matrix=False)
            yield mat(f"{p}.shortconv.in_proj", d, 3 * d)
            yield mat(f"{p}.shortconv.out_proj", d, d)
        else:
            yield from attention(p, s, qk_norm=True)
        yield norm(f"{p}.ffn_norm", d)
        yield from feed_forward(p, s, i)


def arch_falcon_h1(s: Spec) -> Iterator[T]:
    """Attention and a Mamba-2 mixer side by side in every block."""
    d = s.kv["embedding_length"]
    yield from top(s)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        yield from mamba2_mixer(p, s)
        yield from attention(p, s)
        yield T(f"{p}.ffn_norm", (d,), around(1.0, 0.1), matrix=False)    # no ".weight" in real files
        yield from ffn(p, d, s.kv["feed_forward_length"])


def arch_nemotron_h(s: Spec) -> Iterator[T]:
    """One mixer per block (Mamba-2, attention without positions, or a squared-ReLU FFN / experts), chosen by two arrays."""
    d, e = s.kv["embedding_length"], s.kv.get("expert_count")
    yield from top(s)
    yield from norms(s, "output_norm")
    for i, (n_kv, n) in enumerate(zip(s.kv["attention.head_count_kv"], s.kv["feed_forward_length"])):
        p = f"blk.{i}"
        yield norm(f"{p}.attn_norm", d)
        if n_kv:
            yield from attention(p, s)
        elif not n:
            yield from mamba2_mixer(p, s)
        elif not e:
            yield from plain_ffn(p, d, n)
        else:
            yield T(f"{p}.ffn_gate_inp.weight", (d, e), normal(1 / math.sqrt(d)), matrix=False)
            yield bias(f"{p}.exp_probs_b", e)
            latent = s.kv.get("moe_latent_size")
            if latent:                                         # experts are narrower than the residual stream
                yield mat(f"{p}.ffn_latent_down", d, latent)
                yield mat(f"{p}.ffn_latent_up", latent, d)
            yield from plain_ffn(p, latent or d, s.kv["expert_feed_forward_length"], "_exps", e)
            yield from plain_ffn(p, d, s.kv["expert_shared_feed_forward_length"], "_shexp")


def mamba_mixer(p: str, s: Spec) -> Iterator[T]:
    d, k, rank = s.kv["embedding_length"], s.kv["ssm.conv_kernel"], s.kv["ssm.time_step_rank"]
    inner, state = s.kv["ssm.inner_size"], s.kv["ssm.state_size"]
    yield mat(f"{p}.ssm_in", d, 2 * inner)
    yield T(f"{p}.ssm_conv1d.weight", (k, inner), normal(0.5), matrix=False)
    yield bias(f"{p}.ssm_conv1d", inner)
    yield mat(f"{p}.ssm_x", inner, rank + 2 * state)
    if s.arch == "jamba":
        for x, n in (("dt", rank), ("b", state), ("c", state)):
            yield norm(f"{p}.ssm_{x}_norm", n)
    yield mat(f"{p}.ssm_dt", rank, inner)
    yield T(f"{p}.ssm_dt.bias", (inner,), around(-2.0, 1.0), matrix=False)
    yield T(f"{p}.ssm_a", (state, inner), lambda g, sh: -g.uniform(0.5, 8, sh).astype(np.float32), matrix=False)
    yield T(f"{p}.ssm_d", (inner,), around(1.0, 0.1), matrix=False)
    yield mat(f"{p}.ssm_out", inner, d)


def arch_mamba(s: Spec) -> Iterator[T]:
    """mamba; jamba (some layers attention without positions, an FFN or experts after each)."""
    yield from top(s)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield from norms(s, f"{p}.attn_norm")
        if s.arch == "mamba":
            yield from mamba_mixer(p, s)
            continue
        yield from attention(p, s) if s.kv["attention.head_count_kv"][i] else mamba_mixer(p, s)
        yield from norms(s, f"{p}.ffn_norm")
        yield from feed_forward(p, s, i)


def arch_rwkv7(s: Spec) -> Iterator[T]:
    d, n = s.kv["embedding_length"], s.kv["feed_forward_length"]
    decay, iclr, value, gate = (s.kv[f"attention.{x}_lora_rank"] for x in ("decay", "iclr", "value_residual_mix", "gate"))
    vec = lambda name, init, *lead: T(f"{name}.weight", (d, *lead), init, matrix=False)
    share = lambda g, sh: g.uniform(0, 1, sh).astype(np.float32)
    yield from top(s)
    yield from norms(s, "token_embd_norm", "output_norm")
    for i in range(s.kv["block_count"]):
        p, t = f"blk.{i}", f"blk.{i}.time_mix"
        yield from norms(s, f"{p}.attn_norm", f"{p}.attn_norm_2", f"{t}_ln")
        for x, rank in (("w", decay), ("a", iclr), ("v", value if i else iclr), ("g", gate)):
            if x != "g":
                yield vec(f"{t}_{x}0", normal(1.0))
            yield mat(f"{t}_{x}1", d, rank)
            yield mat(f"{t}_{x}2", rank, d)
        yield vec(f"{t}_lerp_fused", share, 1, 1, 6)
        yield vec(f"{t}_k_k", around(0.85, 0.1))
        yield vec(f"{t}_k_a", around(1.0, 0.1))
        yield vec(f"{t}_r_k", normal(0.1))
        for x in ("key", "value", "receptance", "output"):
            yield mat(f"{t}_{x}", d, d)
        yield vec(f"{p}.channel_mix_lerp_k", share, 1, 1)
        yield mat(f"{p}.channel_mix_key", d, n)
        yield mat(f"{p}.channel_mix_value", n, d)


def per_layer_top(s: Spec, n: int) -> Iterator[T]:
    """A second embedding table: n numbers for every layer."""
    d, layers = s.kv["embedding_length"], s.kv["block_count"]
    yield T("per_layer_token_embd.weight", (n * layers, s.vocab), normal(1 / math.sqrt(n)))
    yield mat("per_layer_model_proj", d, n * layers)
    yield norm("per_layer_proj_norm", n)


def per_layer_block(p: str, d: int, n: int) -> Iterator[T]:
    yield mat(f"{p}.inp_gate", d, n)
    yield mat(f"{p}.proj", n, d)
    yield norm(f"{p}.post_norm", d)


def arch_gemma3n(s: Spec) -> Iterator[T]:
    """AltUp (four parallel streams), LAuReL (a low-rank side path), per-layer embeddings, KV shared by the last layers."""
    d, streams, rank, n = s.kv["embedding_length"], 4, 64, 256             # fixed in llama.cpp, whatever the keys say
    yield from top(s)
    yield from per_layer_top(s, n)
    yield mat("altup_proj", d, d, streams - 1)
    yield mat("altup_unembd_proj", d, d, streams - 1)
    yield from norms(s, "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        for x in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "altup_router_norm", "laurel_post_norm", "altup_correct_scale"):
            yield norm(f"{p}.{x}", d)
        yield from attention(p, s, qk_norm=True)
        yield from ffn(p, d, s.kv["feed_forward_length"])
        yield from per_layer_block(p, d, n)
        yield T(f"{p}.altup_correct_coef.weight", (streams, streams), normal(0.3), matrix=False)
        yield T(f"{p}.altup_predict_coef.weight", (streams, streams * streams), normal(0.3), matrix=False)
        yield mat(f"{p}.altup_router", d, streams)
        yield mat(f"{p}.laurel_l", d, rank)
        yield mat(f"{p}.laurel_r", rank, d)


def arch_gemma4(s: Spec) -> Iterator[T]:
    """Sliding and full layers of different head sizes, the last layers sharing KV, per-layer embeddings or experts beside the FFN."""
    d, e, pl = s.kv["embedding_length"], s.kv.get("expert_count"), s.kv["embedding_length_per_layer_input"]
    layers, heads, hd_full = s.kv["block_count"], s.kv["attention.head_count"], s.kv["attention.key_length"]
    kv_heads, widths = s.kv["attention.head_count_kv"], s.kv["feed_forward_length"]
    first_shared = layers - s.kv["attention.shared_kv_layers"]
    yield from top(s)
    if pl:
        yield from per_layer_top(s, pl)
    yield from norms(s, "output_norm")
    rotated = hd_full // 8                                                 # a quarter of the pairs; the rest do not turn
    yield T("rope_freqs.weight", (hd_full // 2,), constant([1.0] * rotated + [1e30] * (hd_full // 2 - rotated)), matrix=False)
    for i, local in enumerate(s.kv["attention.sliding_window_pattern"]):
        p, hd = f"blk.{i}", s.kv["attention.key_length_swa"] if local else hd_full
        n_kv = kv_heads[i] if isinstance(kv_heads, list) else kv_heads
        yield norm(f"{p}.attn_norm", d)
        yield mat(f"{p}.attn_q", d, heads * hd)
        yield norm(f"{p}.attn_q_norm", hd, mean=s.opts["qk_mean"])
        if i < first_shared:
            yield mat(f"{p}.attn_k", d, n_kv * hd)
            yield norm(f"{p}.attn_k_norm", hd, mean=s.opts["qk_mean"])
            if local or not s.opts.get("k_is_v"):
                yield mat(f"{p}.attn_v", d, n_kv * hd)
        yield mat(f"{p}.attn_output", heads * hd, d)
        for x in ("post_attention_norm", "ffn_norm", "post_ffw_norm", *(("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2") if e else ())):
            yield norm(f"{p}.{x}", d)
        yield from ffn(p, d, widths[i] if isinstance(widths, list) else widths)
        if e:
            n = s.kv["expert_feed_forward_length"]
            yield T(f"{p}.ffn_gate_inp.weight", (d, e), normal(1.0), matrix=False)
            yield T(f"{p}.ffn_gate_inp.scale", (d,), around(1.0, 0.1), matrix=False)
            yield mat(f"{p}.ffn_gate_up_exps", d, 2 * n, e)
            yield mat(f"{p}.ffn_down_exps", n, d, e)
            yield T(f"{p}.ffn_down_exps.scale", (e,), around(1.0, 0.1), matrix=False)
        if pl:
            yield from per_layer_block(p, d, pl)
        yield T(f"{p}.layer_output_scale.weight", (1,), around(0.8, 0.1), matrix=False)


def arch_bert(s: Spec) -> Iterator[T]:
    """Post-norm encoders. bert: learned positions; nomic-bert: rotary, gated SiLU; jina-bert-v2: ALiBi, gated GELU; jina-bert-v3: rotary."""
    d, n = s.kv["embedding_length"], s.kv["feed_forward_length"]
    biased, gated = s.arch != "nomic-bert", s.arch in ("nomic-bert", "jina-bert-v2")
    yield embed(d, s.vocab, logit_std=math.sqrt(d))
    yield T("token_types.weight", (d, 2 if s.arch != "jina-bert-v3" else 1), normal(0.3), matrix=False)
    if s.arch == "bert":
        yield T("position_embd.weight", (d, s.kv["context_length"]), normal(0.5), matrix=False)
    yield from norms(s, "token_embd_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        yield from attention(p, s, fused=s.arch not in ("bert", "jina-bert-v2"), qkv_bias=biased, out_bias=biased)
        yield from norms(s, f"{p}.attn_output_norm", f"{p}.layer_output_norm")
        if s.kv.get("moe_every_n_layers") and i % s.kv["moe_every_n_layers"] == 1:
            yield T(f"{p}.ffn_gate_inp.weight", (d, s.kv["expert_count"]), normal(1 / math.sqrt(d)), matrix=False)
            yield from plain_ffn(p, d, n, "_exps", s.kv["expert_count"])
            continue
        if gated:
            yield from ffn(p, d, n)
            if biased:
                yield bias(f"{p}.ffn_down", d)
        else:
            yield from plain_ffn(p, d, n, biased=True)


def arch_modern_bert(s: Spec) -> Iterator[T]:
    d, n = s.kv["embedding_length"], s.kv["feed_forward_length"]
    yield embed(d, s.vocab, logit_std=math.sqrt(d))
    yield from norms(s, "token_embd_norm", "output_norm")
    for i in range(s.kv["block_count"]):
        p = f"blk.{i}"
        if i:
            yield norm(f"{p}.attn_norm", d)
        yield from attention(p, s, fused=True)
        yield norm(f"{p}.ffn_norm", d)
        yield mat(f"{p}.ffn_up", d, 2 * n)         # gate and up fused
        yield mat(f"{p}.ffn_down", n, d)


BUILDERS: dict[str, Callable[[Spec], Iterator[T]]] = {
    **dict.fromkeys(("llama", "mistral3", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "qwen3vl", "granite", "granitemoe", "smollm3",
                     "stablelm", "glm4moe", "gemma", "command-r", "cohere2", "ernie4_5", "ernie4_5-moe", "hunyuan-dense", "llama4",
                     "minicpm", "seed_oss", "bailingmoe2", "minimax-m2", "hunyuan-moe", "dots1", "olmoe", "exaone-moe", "qwen2vl",
                     "qwen3vlmoe", "phimoe", "internlm2", "mimo2", "step35", "laguna", "hy_v3"), arch_llama),
    **dict.fromkeys(("gemma2", "gemma3", "gemma-embedding", "glm4", "olmo2", "exaone4", "afmoe"), arch_gemma),
    **dict.fromkeys(("gpt2", "starcoder2", "phi2", "gptneox", "falcon", "nemotron", "arcee", "apertus"), arch_gpt2),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), arch_qwen_next),
    **dict.fromkeys(("deepseek2", "deepseek32", "glm-dsa", "kimi-linear", "mistral4"), arch_deepseek2),
    **dict.fromkeys(("mamba", "jamba"), arch_mamba),
    "phi3": arch_phi3, "gpt-oss": arch_gpt_oss, "mamba2": arch_mamba2,
    "granitehybrid": arch_granite_hybrid, "falcon-h1": arch_falcon_h1, "rwkv7": arch_rwkv7,
    "gemma3n": arch_gemma3n, "gemma4": arch_gemma4, "modern-bert": arch_modern_bert,
    **dict.fromkeys(("lfm2", "lfm2moe"), arch_lfm2),
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), arch_nemotron_h),
    **dict.fromkeys(("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3"), arch_bert),
}
