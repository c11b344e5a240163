"""The tiny models of make.py: a transformers configuration each, and which vocabulary and type its folder has."""
import transformers as t

VOCABULARY = 400
DECODER = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=None,
               tie_word_embeddings=False)
EXPERTS = dict(num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True)
ENCODER = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
               max_position_embeddings=64)
QWEN3_EYES = dict(depth=2, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, patch_size=14,
                  num_position_embeddings=16, deepstack_visual_indexes=[1])
NEMOTRON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
                head_dim=16, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=None,
                tie_word_embeddings=False, ssm_state_size=8, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, conv_kernel=4,
                chunk_size=16)


def decoder(**more):
    return DECODER | more


def rope(kind="default", base=10000.0, **more):
    return dict(rope_parameters={"rope_type": kind, "rope_theta": base, **more})


def latent(**more):
    return decoder(
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
        n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5, **EXPERTS) | more


def granite4(layers, experts):
    return decoder(
        attention_multiplier=0.25, embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
        num_hidden_layers=len(layers), layer_types=layers, num_local_experts=experts, num_experts_per_tok=experts // 2,
        shared_intermediate_size=40 if experts else 48, mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1,
        mamba_expand=2, mamba_chunk_size=16)


# Name: class of the model, class of the configuration, options, vocabulary, type.
FAMILIES = {
    "llama": (t.LlamaForCausalLM, t.LlamaConfig, decoder(rms_norm_eps=1e-3), "spm", "BF16"),
    "llama-json": (t.LlamaForCausalLM, t.LlamaConfig, decoder(tie_word_embeddings=True), "spm-json", "F16"),
    "llama3": (t.LlamaForCausalLM, t.LlamaConfig, decoder(
        **rope("llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=64), attention_bias=True, mlp_bias=True), "bpe", "BF16"),
    "llama-linear": (t.LlamaForCausalLM, t.LlamaConfig, decoder(**rope("linear", factor=4.0)), "bpe", "F32"),
    "mistral": (t.MistralForCausalLM, t.MistralConfig, decoder(head_dim=16, sliding_window=None), "bpe", "BF16"),
    "mixtral": (t.MixtralForCausalLM, t.MixtralConfig, decoder(num_local_experts=4, sliding_window=None), "bpe", "BF16"),
    "qwen2": (t.Qwen2ForCausalLM, t.Qwen2Config, decoder(tie_word_embeddings=True), "bpe", "BF16"),
    "qwen2-yarn": (t.Qwen2ForCausalLM, t.Qwen2Config, decoder(
        **rope("yarn", 1e6, factor=2.0, original_max_position_embeddings=128)), "bpe", "F16"),
    "qwen2moe": (t.Qwen2MoeForCausalLM, t.Qwen2MoeConfig, decoder(
        num_experts=4, shared_expert_intermediate_size=40, **EXPERTS | {"norm_topk_prob": False}), "bpe", "BF16"),
    "qwen3": (t.Qwen3ForCausalLM, t.Qwen3Config, decoder(head_dim=16), "bpe", "BF16"),
    "qwen3moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig, decoder(head_dim=16, num_experts=4, **EXPERTS), "bpe", "BF16"),
    "gemma": (t.GemmaForCausalLM, t.GemmaConfig, decoder(head_dim=16, tie_word_embeddings=True), "spm", "BF16"),
    "gemma2": (t.Gemma2ForCausalLM, t.Gemma2Config, decoder(
        head_dim=16, tie_word_embeddings=True, sliding_window=16, query_pre_attn_scalar=16), "spm", "BF16"),
    "gemma3": (t.Gemma3ForCausalLM, t.Gemma3TextConfig, decoder(
        head_dim=16, tie_word_embeddings=True, sliding_window=16, num_hidden_layers=7, query_pre_attn_scalar=16), "spm", "BF16"),
    "gemma3-vision": (t.Gemma3ForConditionalGeneration, t.Gemma3Config, dict(
        text_config=decoder(head_dim=16, sliding_window=16, num_hidden_layers=6, query_pre_attn_scalar=16),
        vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                           patch_size=14), mm_tokens_per_image=4), "spm", "BF16"),
    "phi3": (t.Phi3ForCausalLM, t.Phi3Config, decoder(), "spm", "BF16"),
    "phi3-long": (t.Phi3ForCausalLM, t.Phi3Config, decoder(
        max_position_embeddings=256, original_max_position_embeddings=32,
        rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.25, 1.5, 2.0],
                         "long_factor": [1.5, 2.0, 4.0, 8.0], "original_max_position_embeddings": 32}), "spm", "BF16"),
    "smollm3": (t.SmolLM3ForCausalLM, t.SmolLM3Config, decoder(num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0]), "bpe", "BF16"),
    "granite": (t.GraniteForCausalLM, t.GraniteConfig, decoder(
        attention_multiplier=0.25, embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0), "bpe", "BF16"),
    "granitemoe": (t.GraniteMoeForCausalLM, t.GraniteMoeConfig, decoder(
        attention_multiplier=0.25, embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
        num_local_experts=4, num_experts_per_tok=2), "bpe", "BF16"),
    "granitemoe-shared": (t.GraniteMoeSharedForCausalLM, t.GraniteMoeSharedConfig, decoder(
        attention_multiplier=0.25, embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=4.0,
        num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40), "bpe", "BF16"),
    "olmo2": (t.Olmo2ForCausalLM, t.Olmo2Config, decoder(), "bpe", "BF16"),
    "olmo3": (t.Olmo3ForCausalLM, t.Olmo3Config, decoder(num_hidden_layers=4, sliding_window=16), "bpe", "BF16"),
    "olmoe": (t.OlmoeForCausalLM, t.OlmoeConfig, decoder(num_experts=4, num_experts_per_tok=2), "bpe", "BF16"),
    "starcoder2": (t.Starcoder2ForCausalLM, t.Starcoder2Config, decoder(
        tie_word_embeddings=True, sliding_window=None), "bpe", "BF16"),
    "stablelm": (t.StableLmForCausalLM, t.StableLmConfig, decoder(use_qkv_bias=True), "bpe", "BF16"),
    "phi2": (t.PhiForCausalLM, t.PhiConfig, decoder(num_key_value_heads=4, intermediate_size=128), "bpe", "BF16"),
    "gptneox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig, dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256, bos_token_id=0, eos_token_id=0), "bpe", "BF16"),
    "gpt2": (t.GPT2LMHeadModel, t.GPT2Config, dict(
        vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=0, eos_token_id=0), "bpe", "F32"),
    "falcon": (t.FalconForCausalLM, t.FalconConfig, dict(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, new_decoder_architecture=False,
        multi_query=True, parallel_attn=True, bias=False, alibi=False, bos_token_id=0, eos_token_id=0), "bpe", "BF16"),
    "command-r": (t.CohereForCausalLM, t.CohereConfig, decoder(tie_word_embeddings=True, logit_scale=0.25), "bpe", "BF16"),
    "cohere2": (t.Cohere2ForCausalLM, t.Cohere2Config, decoder(
        tie_word_embeddings=True, logit_scale=0.25, sliding_window=16, num_hidden_layers=4), "bpe", "BF16"),
    "glm4": (t.Glm4ForCausalLM, t.Glm4Config, decoder(head_dim=16), "bpe", "BF16"),
    "ernie4_5": (t.Ernie4_5ForCausalLM, t.Ernie4_5Config, decoder(head_dim=16, tie_word_embeddings=True), "spm", "BF16"),
    "hunyuan-dense": (t.HunYuanDenseV1ForCausalLM, t.HunYuanDenseV1Config, decoder(
        head_dim=16, max_position_embeddings=32768, **rope("dynamic", 10000.0, alpha=1000.0, factor=1.0)), "bpe", "BF16"),
    "seed_oss": (t.SeedOssForCausalLM, t.SeedOssConfig, decoder(head_dim=16), "bpe", "BF16"),
    "exaone4": (t.Exaone4ForCausalLM, t.Exaone4Config, decoder(
        num_hidden_layers=4, sliding_window=16, sliding_window_pattern=4), "bpe", "BF16"),
    "apertus": (t.ApertusForCausalLM, t.ApertusConfig, decoder(), "bpe", "BF16"),
    "arcee": (t.ArceeForCausalLM, t.ArceeConfig, decoder(), "bpe", "BF16"),
    "glm4moe": (t.Glm4MoeForCausalLM, t.Glm4MoeConfig, decoder(
        head_dim=16, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5,
        n_group=1, topk_group=1, use_qk_norm=True, **EXPERTS), "bpe", "BF16"),
    "dots1": (t.Dots1ForCausalLM, t.Dots1Config, decoder(
        head_dim=16, n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5,
        n_group=1, topk_group=1, scoring_func="sigmoid", **EXPERTS), "bpe", "BF16"),
    "minimax-m2": (t.MiniMaxM2ForCausalLM, t.MiniMaxM2Config, decoder(
        head_dim=16, num_local_experts=4, num_experts_per_tok=2, rotary_dim=8, scoring_func="sigmoid"), "bpe", "BF16"),
    "ernie4_5-moe": (t.Ernie4_5_MoeForCausalLM, t.Ernie4_5_MoeConfig, decoder(
        intermediate_size=96, moe_num_experts=4, moe_k=2, moe_num_shared_experts=2, moe_intermediate_size=24, moe_layer_start_index=1,
        moe_layer_interval=1), "spm", "BF16"),
    "exaone-moe": (t.ExaoneMoeForCausalLM, t.ExaoneMoeConfig, decoder(
        num_hidden_layers=4, num_experts=4, num_shared_experts=1, sliding_window=16, sliding_window_pattern=4,
        first_k_dense_replace=1, routed_scaling_factor=1.5, n_group=1, topk_group=1, scoring_func="sigmoid", **EXPERTS), "bpe", "BF16"),
    "phimoe": (t.PhimoeForCausalLM, t.PhimoeConfig, decoder(
        num_local_experts=4, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True, sliding_window=None,
        original_max_position_embeddings=256), "spm", "BF16"),
    "afmoe": (t.AfmoeForCausalLM, t.AfmoeConfig, decoder(
        head_dim=16, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, num_dense_layers=1,
        moe_intermediate_size=24, sliding_window=16, route_scale=1.5, mup_enabled=True, global_attn_every_n_layers=4), "bpe", "BF16"),
    "deepseek3": (t.DeepseekV3ForCausalLM, t.DeepseekV3Config, decoder(
        num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
        n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=1.5, n_group=2, topk_group=1,
        scoring_func="sigmoid", **EXPERTS), "bpe", "BF16"),
    "deepseek2": (t.DeepseekV2ForCausalLM, t.DeepseekV2Config, decoder(
        num_key_value_heads=4, q_lora_rank=None, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=12,
        n_routed_experts=4, n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.5, n_group=1, topk_group=1,
        topk_method="greedy", **EXPERTS | {"norm_topk_prob": False}), "bpe", "BF16"),
    "gpt-oss": (t.GptOssForCausalLM, t.GptOssConfig, decoder(
        head_dim=16, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
        **rope("yarn", 150000.0, factor=2.0, beta_fast=32.0, beta_slow=1.0, truncate=True,
               original_max_position_embeddings=128)), "bpe", "BF16"),
    "gpt-oss-mxfp4": (t.GptOssForCausalLM, t.GptOssConfig, decoder(
        head_dim=16, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=16,
        **rope("yarn", 150000.0, factor=2.0, beta_fast=32.0, beta_slow=1.0, truncate=True,
               original_max_position_embeddings=128)), "bpe", "BF16"),
    "lfm2": (t.Lfm2ForCausalLM, t.Lfm2Config, decoder(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, block_multiple_of=16,
        block_ff_dim=60, tie_word_embeddings=True), "bpe", "BF16"),
    "lfm2moe": (t.Lfm2MoeForCausalLM, t.Lfm2MoeConfig, decoder(
        num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], conv_L_cache=3, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=24, num_dense_layers=1, tie_word_embeddings=True), "bpe", "BF16"),
    "mamba": (t.MambaForCausalLM, t.MambaConfig, dict(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, expand=2,
        bos_token_id=0, eos_token_id=0, pad_token_id=0, tie_word_embeddings=False), "bpe", "F32"),
    "mamba2": (t.Mamba2ForCausalLM, t.Mamba2Config, dict(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, expand=2, num_heads=8,
        head_dim=8, n_groups=1, chunk_size=16, bos_token_id=0, eos_token_id=0, pad_token_id=0, tie_word_embeddings=False), "bpe", "F32"),
    "mamba2-groups": (t.Mamba2ForCausalLM, t.Mamba2Config, dict(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, expand=2, num_heads=8,
        head_dim=8, n_groups=2, chunk_size=16, bos_token_id=0, eos_token_id=0, pad_token_id=0, tie_word_embeddings=False), "bpe", "F32"),
    "llama4": (t.Llama4ForCausalLM, t.Llama4TextConfig, decoder(
        head_dim=16, num_hidden_layers=4, intermediate_size=24, intermediate_size_mlp=48, num_local_experts=4,
        num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layers=[1, 1, 1, 0], attention_chunk_size=8192,
        use_qk_norm=True), "bpe", "BF16"),
    "mistral3": (t.Ministral3ForCausalLM, t.Ministral3Config, decoder(
        head_dim=16, **rope("yarn", 1e6, factor=2.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                            original_max_position_embeddings=128, llama_4_scaling_beta=0.1)), "bpe", "BF16"),
    "qwen35": (t.Qwen3_5ForCausalLM, t.Qwen3_5TextConfig, decoder(
        head_dim=16, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8), "bpe", "BF16"),
    "qwen35moe": (t.Qwen3_5MoeForCausalLM, t.Qwen3_5MoeTextConfig, decoder(
        head_dim=16, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, shared_expert_intermediate_size=40, **EXPERTS), "bpe", "BF16"),
    "qwen3next": (t.Qwen3NextForCausalLM, t.Qwen3NextConfig, decoder(
        head_dim=16, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, shared_expert_intermediate_size=40, **EXPERTS), "bpe", "BF16"),
    "mistral3-vision": (t.Mistral3ForConditionalGeneration, t.Mistral3Config, dict(
        text_config=decoder(head_dim=16, sliding_window=None) | {"model_type": "mistral"},
        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                           image_size=28, patch_size=14, head_dim=8)), "bpe", "BF16"),
    "nemotron": (t.NemotronForCausalLM, t.NemotronConfig, decoder(head_dim=8), "spm", "BF16"),
    "gemma3n": (t.Gemma3nForCausalLM, t.Gemma3nTextConfig, decoder(
        head_dim=16, tie_word_embeddings=True, sliding_window=16, num_hidden_layers=5, num_kv_shared_layers=2,
        layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention", "full_attention"],
        vocab_size_per_layer_input=392, hidden_size_per_layer_input=8, laurel_rank=64,
        activation_sparsity_pattern=[0.0] * 5, final_logit_softcapping=30.0), "spm", "BF16"),
    "gemma4": (t.Gemma4ForCausalLM, t.Gemma4TextConfig, decoder(
        head_dim=8, global_head_dim=16, tie_word_embeddings=True, sliding_window=16, num_hidden_layers=5, num_kv_shared_layers=2,
        layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention", "full_attention"],
        vocab_size_per_layer_input=VOCABULARY, hidden_size_per_layer_input=8, use_double_wide_mlp=True,
        final_logit_softcapping=30.0), "gemma4", "BF16"),
    "gemma4-moe": (t.Gemma4ForCausalLM, t.Gemma4TextConfig, decoder(
        head_dim=8, global_head_dim=16, tie_word_embeddings=True, sliding_window=16, num_hidden_layers=3,
        layer_types=["sliding_attention", "full_attention", "full_attention"], hidden_size_per_layer_input=0,
        num_global_key_value_heads=1, attention_k_eq_v=True, enable_moe_block=True, num_experts=4, top_k_experts=2,
        moe_intermediate_size=24, final_logit_softcapping=30.0), "gemma4", "BF16"),
    "granitehybrid": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig, granite4(["mamba", "attention", "mamba"], 4), "bpe", "BF16"),
    "granitehybrid-dense": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig, granite4(["mamba", "attention"], 0), "bpe", "BF16"),
    "granite4": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig, granite4(
        ["attention"] * 2, 0) | dict(position_embedding_type="rope"), "bpe", "BF16"),
    "granite4-moe": (t.GraniteMoeHybridForCausalLM, t.GraniteMoeHybridConfig, granite4(
        ["attention"], 4) | dict(position_embedding_type="rope"), "bpe", "BF16"),
    "nemotron-h": (t.NemotronHForCausalLM, t.NemotronHConfig, NEMOTRON | dict(
        layers_block_type=["mamba", "mlp", "attention", "mlp"]), "bpe", "BF16"),
    "nemotron-h-moe": (t.NemotronHForCausalLM, t.NemotronHConfig, NEMOTRON | dict(
        layers_block_type=["mamba", "moe", "attention", "moe"], n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=24, moe_shared_expert_intermediate_size=40, moe_latent_size=16, routed_scaling_factor=1.5), "bpe", "BF16"),
    "falcon-h1": (t.FalconH1ForCausalLM, t.FalconH1Config, decoder(
        head_dim=16, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1, mamba_expand=1,
        mamba_chunk_size=16, mamba_rms_norm=False, lm_head_multiplier=0.5, embedding_multiplier=2.0, mlp_multipliers=[0.3, 0.7],
        key_multiplier=0.4, attention_out_multiplier=0.75, attention_in_multiplier=1.5, ssm_multipliers=[0.6, 0.7, 0.3, 1.5, 2.1],
        ssm_in_multiplier=1.2, ssm_out_multiplier=0.5), "bpe", "F32"),
    "jamba": (t.JambaForCausalLM, t.JambaConfig, decoder(
        num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1,
        attn_layer_period=4, attn_layer_offset=2, mamba_d_state=8, mamba_dt_rank=4), "spm", "BF16"),
    "hunyuan-moe": (t.HunYuanMoEV1ForCausalLM, t.HunYuanMoEV1Config, decoder(
        hidden_size=128, num_attention_heads=1, num_key_value_heads=1, head_dim=128, num_experts=4, moe_topk=[2, 2],
        max_position_embeddings=32768, **rope("dynamic", 10000.0, alpha=1000.0, factor=1.0)), "hunyuan", "BF16"),
    "bert": (t.BertModel, t.BertConfig, ENCODER | dict(type_vocab_size=2), "wordpiece", "F16"),
    "distilbert": (t.DistilBertModel, t.DistilBertConfig, dict(
        vocab_size=VOCABULARY, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64), "wordpiece", "F32"),
    "roberta": (t.RobertaModel, t.RobertaConfig, ENCODER | dict(
        max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2), "bpe", "F32"),
    "xlm-roberta": (t.XLMRobertaModel, t.XLMRobertaConfig, ENCODER | dict(
        max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2), "unigram", "F32"),
    "modern-bert": (t.ModernBertModel, t.ModernBertConfig, ENCODER | dict(
        num_hidden_layers=4, local_attention=16, global_attn_every_n_layers=3, cls_token_id=0, sep_token_id=0, bos_token_id=0,
        eos_token_id=0, pad_token_id=0), "bpe", "F32"),
    "deepseek32": (t.DeepseekV32ForCausalLM, t.DeepseekV32Config, latent(
        index_topk=64, index_head_dim=16, index_n_heads=4, n_group=2, topk_group=1), "bpe", "BF16"),
    "glm-dsa": (t.GlmMoeDsaForCausalLM, t.GlmMoeDsaConfig, latent(
        num_hidden_layers=3, index_topk=64, index_head_dim=16, index_n_heads=4, n_group=1, topk_group=1,
        indexer_types=["full", "full", "shared"]), "bpe", "BF16"),
    "mistral4": (t.Mistral3ForConditionalGeneration, t.Mistral3Config, dict(
        text_config=latent(n_group=1, topk_group=1, first_k_dense_replace=0, **rope(
            "yarn", 10000.0, factor=16.0, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
            original_max_position_embeddings=16, llama_4_scaling_beta=0.1)) | {"model_type": "mistral4"},
        vision_config=dict(model_type="pixtral", hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                           image_size=28, patch_size=14, head_dim=8)), "bpe", "BF16"),
    "laguna": (t.LagunaForCausalLM, t.LagunaConfig, decoder(
        eos_token_id=[1, 5],
        head_dim=16, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
        shared_expert_intermediate_size=40, moe_routed_scaling_factor=1.5, sliding_window=16, gating=True,
        layer_types=["full_attention"] + ["sliding_attention"] * 3, num_attention_heads_per_layer=[4, 6, 6, 6],
        rope_parameters={
            "full_attention": {"rope_type": "yarn", "rope_theta": 500000.0, "partial_rotary_factor": 0.5, "factor": 2.0,
                               "original_max_position_embeddings": 128, "beta_fast": 32.0, "beta_slow": 1.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}}), "bpe", "BF16"),
    "hy_v3": (t.HYV3ForCausalLM, t.HYV3Config, decoder(
        head_dim=16, num_experts=4, num_experts_per_tok=2, num_shared_experts=1, moe_intermediate_size=24,
        router_scaling_factor=1.5), "bpe", "BF16"),
    "nomic-bert": (t.NomicBertModel, t.NomicBertConfig, ENCODER | dict(
        max_position_embeddings=2048, type_vocab_size=2), "wordpiece", "F32"),
    "gemma-embedding": (t.Gemma3TextModel, t.Gemma3TextConfig, decoder(
        head_dim=16, sliding_window=16, num_hidden_layers=7, query_pre_attn_scalar=16, use_bidirectional_attention=True), "spm", "BF16"),
    "kimi-linear": (t.KimiLinearForCausalLM, t.KimiLinearConfig, latent(
        num_hidden_layers=4, q_lora_rank=None, num_local_experts=4, n_group=1, topk_group=1, linear_head_dim=8, linear_num_heads=4,
        linear_conv_kernel_dim=4, layer_types=["linear_attention"] * 3 + ["full_attention"]), "kimi", "BF16"),
    "minicpm3": (t.MiniCPM3ForCausalLM, t.MiniCPM3Config, dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=64, q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=16, v_head_dim=8, tie_word_embeddings=False, **rope(
            "longrope", 10000.0, factor=1.0, original_max_position_embeddings=64, long_factor=[1.0, 1.5, 2.0, 2.5],
            short_factor=[1.0, 1.25, 1.5, 1.75])), "spm", "BF16"),
    "qwen2vl": (t.Qwen2_5_VLForConditionalGeneration, t.Qwen2_5_VLConfig, dict(
        text_config=decoder(rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}),
        vision_config=dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, patch_size=14,
                           fullatt_block_indexes=[0]), tie_word_embeddings=False), "bpe", "BF16"),
    "qwen3vl": (t.Qwen3VLForConditionalGeneration, t.Qwen3VLConfig, dict(
        text_config=decoder(head_dim=16, rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2]}),
        vision_config=QWEN3_EYES, tie_word_embeddings=False), "bpe", "BF16"),
    "qwen3vlmoe": (t.Qwen3VLMoeForConditionalGeneration, t.Qwen3VLMoeConfig, dict(
        text_config=decoder(head_dim=16, num_experts=4, **EXPERTS, rope_parameters={
            "rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2]}),
        vision_config=QWEN3_EYES, tie_word_embeddings=False), "bpe", "BF16"),
    "glm4-lite": (t.Glm4MoeLiteForCausalLM, t.Glm4MoeLiteConfig, latent(n_group=1, topk_group=1), "bpe", "BF16"),
    "falcon-mamba": (t.FalconMambaForCausalLM, t.FalconMambaConfig, dict(
        vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2, conv_kernel=4, expand=2, layer_norm_epsilon=1e-6,
        bos_token_id=0, eos_token_id=0, pad_token_id=0, tie_word_embeddings=False), "bpe", "F32"),
}

# Names that transformers writes other than it reads them: of the first layer, which has no experts.
RENAMED = {"kimi-linear": ("layers.0.block_sparse_moe.", "layers.0.mlp.")}

# Tensors that stand in checkpoints with columns before rows, though transformers writes them otherwise.
TRANSPOSED = {"qwen3vlmoe": ("experts.gate_up_proj", "experts.down_proj")}

# Models that give one vector, and how rows become it.
POOLED = {"bert": "cls", "distilbert": "mean", "roberta": "mean", "xlm-roberta": "cls", "modern-bert": "cls", "nomic-bert": "mean", "gemma-embedding": "mean"}
# And linear layers of that vector, by folder: values read and given.
DENSE = {"gemma-embedding": {"2_Dense": (32, 48), "3_Dense": (48, 32)}}

# Keys that configurations of older versions of transformers have, and which are read by these names only; those that
# they do not have are `...`.
OLDER_KEYS = {
    "kimi-linear": {
        "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4},
        "num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1, "num_expert_group": 1, "first_k_dense_replace": 1,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "mla_use_nope": True, "model_max_length": 256},
    "nomic-bert": {
        "n_embd": 32, "n_head": 4, "n_inner": 48, "n_layer": 2, "n_positions": 8192, "max_trained_positions": 2048,
        "activation_function": "swiglu", "causal": False, "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        "prenorm": False, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "rotary_emb_base": 1000, "layer_norm_epsilon": 1e-12},
    "deepseek32": {"scoring_func": "sigmoid"},
    "hunyuan-moe": {"moe_intermediate_size": [48, 48], "num_shared_expert": [1, 1]},
    "nemotron-h": {"hybrid_override_pattern": "M-*-", "layers_block_type": ..., "num_experts_per_tok": ..., "n_routed_experts": ...,
                   "n_group": ..., "topk_group": ..., "num_hidden_layers": 4, "rms_norm_eps": 1e-5},
    "nemotron-h-moe": {"layers_block_type": ["mamba", "moe", "attention", "moe"], "rms_norm_eps": 1e-5},
    "granitehybrid": {"layer_types": ["mamba", "attention", "mamba"]},
    "granitehybrid-dense": {"layer_types": ["mamba", "attention"]},
    "granite4": {"layer_types": ["attention"] * 2},
    "granite4-moe": {"layer_types": ["attention"]},
    "gpt2": {"n_ctx": 64},
    "gptneox": {"rotary_pct": 0.25},
    "cohere2": {"rotary_pct": 1.0},
    "falcon": {"num_kv_heads": 1},
    "afmoe": {"route_norm": True},
    "gpt-oss-mxfp4": {"quantization_config": {"quant_method": "mxfp4"}},
    "phimoe": {"architectures": ["PhiMoEForCausalLM"]},
}
