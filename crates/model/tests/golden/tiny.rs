//! Logits and greedy tokens.

use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Program;
use gleed_model::reference::Options;
use gleed_model::slots::InTurn;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Reference, Row};
use gleed_testing::golden::{
    ADDITIONS, GELU_TABLE, GELU_TABLE_OFTEN, Golden, argmax, floats, golden, hold, tiny_model,
    tiny_models_with,
};

/// The logits after the last of some new tokens of a sequence that holds `position` already.
pub fn append(executor: &mut Reference, slots: &mut InTurn, tokens: &[u32], position: usize) -> Vec<f32> {
    let mut batch = Batch::default();
    let pages: Vec<u32> = (0..executor.page_count() as u32).rev().collect();
    let table = batch.add_table(&pages);
    for (i, &token) in tokens.iter().enumerate() {
        let position = (position + i) as u32;
        batch.push(Row { table, position, token, wants_logits: i + 1 == tokens.len() });
    }
    slots.go_on(&mut batch);
    executor.step(&batch, &mut ()).unwrap();
    executor.logits(0).to_vec()
}

/// A reference for a prompt and what follows it.
pub fn executor(file: &Arc<Gguf>, program: &Program, golden: &Golden) -> Reference {
    let total = golden.prompt_ids.len() + golden.gen_ids.len();
    let (arithmetic, kv, pages) = (Arithmetic::F32, KvType::F32, total.div_ceil(PAGE));
    let options = Options { arithmetic, rounds_to_groups: None, kv, max_rows: total, pages };
    Reference::new(file.clone(), program.clone(), options).unwrap().with_slots(InTurn::slots(1)).unwrap()
}

fn check(name: &str, limit: f32) {
    let file = Arc::new(Gguf::open(&tiny_model(name)).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    check_model(&format!("tiny/{name}"), &file, &model, limit);
}

/// Holds a model against golden data.
pub fn check_model(name: &str, file: &Arc<Gguf>, model: &Model, limit: f32) {
    for (index, golden) in golden(name).iter().enumerate() {
        let make = |rules| executor(file, &fuse(&model.program, rules), golden);

        // Nothing but the order of additions differs.
        let (mut executor, mut slots) = (make(Rules::NONE), InTurn::default());
        let mut logits = append(&mut executor, &mut slots, &golden.prompt_ids, 0);
        let truth = floats(&format!("{name}.p{index}.logits.f32"));
        let model = name.split_once('/').map_or(name, |(_, model)| model);
        let spread = hold("reference", model, index, &logits, &truth, limit);

        // The fused program computes the same bits.
        let fused = append(&mut make(Rules::ALL), &mut InTurn::default(), &golden.prompt_ids, 0);
        assert_eq!(logits, fused, "{name} prompt {index}: fused");

        for (i, (&token, &margin)) in golden.gen_ids.iter().zip(&golden.margins).enumerate() {
            // Below this margin either token is right.
            if margin > 2.0 * limit * spread {
                assert_eq!(argmax(&logits), token, "{name} prompt {index}, token {i}");
            }
            logits = append(&mut executor, &mut slots, &[token], golden.prompt_ids.len() + i);
        }
    }
}

/// A test for each golden file: its name, and how close the logits are.
macro_rules! families {
    ($($test:ident: $name:literal, $limit:ident;)*) => {
        $(
            #[test]
            fn $test() {
                check($name, $limit);
            }
        )*

        #[test]
        fn every_golden_file_is_used() {
            // Models without logits are the embedding tests', and eight thousand tokens are for the CPU's.
            let mut known = vec!["tiny-llama4-long", $($name),*];
            known.sort();
            assert_eq!(known, tiny_models_with(".p0.logits.f32"));
        }
    };
}

families! {
    afmoe_with_windows_and_a_gate: "tiny-afmoe", ADDITIONS;
    apertus_with_xielu: "tiny-apertus", ADDITIONS;
    arcee: "tiny-arcee", ADDITIONS;
    bailingmoe2: "tiny-bailingmoe2", ADDITIONS;
    cohere2_with_windows: "tiny-cohere2", ADDITIONS;
    command_r: "tiny-command-r", ADDITIONS;
    deepseek2_with_a_latent_cache: "tiny-deepseek2", ADDITIONS;
    deepseek2_lite: "tiny-deepseek2-lite", ADDITIONS;
    deepseek2_as_older_files_have_it: "tiny-deepseek2-old", ADDITIONS;
    deepseek32: "tiny-deepseek32-heads", ADDITIONS;
    dots1: "tiny-dots1", ADDITIONS;
    ernie4_5: "tiny-ernie4_5", ADDITIONS;
    ernie4_5_moe: "tiny-ernie4_5-moe", ADDITIONS;
    exaone_moe: "tiny-exaone-moe", ADDITIONS;
    exaone4: "tiny-exaone4", ADDITIONS;
    exaone4_with_windows: "tiny-exaone4-hybrid", ADDITIONS;
    falcon: "tiny-falcon", GELU_TABLE;
    falcon_h1_with_attention_beside_mamba2: "tiny-falcon-h1", ADDITIONS;
    gemma: "tiny-gemma", GELU_TABLE;
    gemma2_with_soft_caps_and_windows: "tiny-gemma2", GELU_TABLE;
    gemma3_with_windows_and_two_ropes: "tiny-gemma3", GELU_TABLE;
    gemma3n_with_streams_and_sparse_gates: "tiny-gemma3n", GELU_TABLE_OFTEN;
    gemma4_with_shared_keys_and_embeddings_of_layers: "tiny-gemma4", GELU_TABLE_OFTEN;
    gemma4_with_experts_beside: "tiny-gemma4-moe", GELU_TABLE;
    glm_dsa: "tiny-glm-dsa-heads", ADDITIONS;
    glm4: "tiny-glm4", ADDITIONS;
    glm4moe: "tiny-glm4moe", ADDITIONS;
    gpt_oss: "tiny-gpt-oss", ADDITIONS;
    gpt2: "tiny-gpt2", GELU_TABLE;
    gptneox: "tiny-gptneox", GELU_TABLE;
    granite: "tiny-granite", ADDITIONS;
    granite_hybrid: "tiny-granite-hybrid", ADDITIONS;
    granitemoe: "tiny-granitemoe", ADDITIONS;
    hunyuan_dense: "tiny-hunyuan-dense", ADDITIONS;
    hunyuan_moe: "tiny-hunyuan-moe", ADDITIONS;
    hy_v3: "tiny-hy_v3", ADDITIONS;
    internlm2: "tiny-internlm2", ADDITIONS;
    jamba: "tiny-jamba", ADDITIONS;
    kimi_linear_with_decays_of_rows: "tiny-kimi-linear", ADDITIONS;
    laguna_with_more_heads_in_windows: "tiny-laguna", ADDITIONS;
    lfm2_with_short_convolutions: "tiny-lfm2", ADDITIONS;
    lfm2moe: "tiny-lfm2moe", ADDITIONS;
    llama: "tiny-llama", ADDITIONS;
    llama3_with_rotary_factors: "tiny-llama3", ADDITIONS;
    llama4: "tiny-llama4", ADDITIONS;
    mamba: "tiny-mamba", ADDITIONS;
    mamba2: "tiny-mamba2", ADDITIONS;
    mimo2_with_sinks_in_windows: "tiny-mimo2", ADDITIONS;
    minicpm: "tiny-minicpm", ADDITIONS;
    minicpm_4_with_long_factors: "tiny-minicpm4-long", ADDITIONS;
    minimax_m2: "tiny-minimax-m2", ADDITIONS;
    mistral3: "tiny-mistral3", ADDITIONS;
    mistral3_beyond_its_first_context: "tiny-mistral3-long", ADDITIONS;
    mistral4_with_growing_queries: "tiny-mistral4", ADDITIONS;
    mixtral: "tiny-mixtral", ADDITIONS;
    nemotron: "tiny-nemotron", ADDITIONS;
    nemotron_h_with_one_mixer_a_layer: "tiny-nemotron_h", ADDITIONS;
    nemotron_h_moe: "tiny-nemotron_h_moe", ADDITIONS;
    nemotron_h_moe_with_latent_experts: "tiny-nemotron_h_moe-latent", ADDITIONS;
    olmo2: "tiny-olmo2", ADDITIONS;
    olmo3_with_windows: "tiny-olmo3", ADDITIONS;
    olmoe: "tiny-olmoe", ADDITIONS;
    phi2: "tiny-phi2", GELU_TABLE;
    phi3: "tiny-phi3", ADDITIONS;
    phi4_mini_with_short_factors: "tiny-phi4-mini", ADDITIONS;
    phi4_mini_with_long_factors: "tiny-phi4-mini-long", ADDITIONS;
    phimoe: "tiny-phimoe", ADDITIONS;
    qwen2: "tiny-qwen2", ADDITIONS;
    qwen2moe: "tiny-qwen2moe", ADDITIONS;
    qwen2_vl: "tiny-qwen2vl", ADDITIONS;
    qwen3: "tiny-qwen3", ADDITIONS;
    qwen35_with_the_gated_delta_rule: "tiny-qwen35", ADDITIONS;
    qwen35moe: "tiny-qwen35moe", ADDITIONS;
    qwen3moe: "tiny-qwen3moe", ADDITIONS;
    qwen3next: "tiny-qwen3next", ADDITIONS;
    qwen3_vl: "tiny-qwen3vl", ADDITIONS;
    qwen3vlmoe: "tiny-qwen3vlmoe", ADDITIONS;
    rwkv7: "tiny-rwkv7", ADDITIONS;
    seed_oss: "tiny-seed_oss", ADDITIONS;
    smollm3: "tiny-smollm3", ADDITIONS;
    stablelm: "tiny-stablelm", ADDITIONS;
    stablelm_side_by_side: "tiny-stablelm-parallel", ADDITIONS;
    starcoder2: "tiny-starcoder2", GELU_TABLE;
    step35_with_bounded_experts: "tiny-step35", ADDITIONS;
}

/// The two have the same weights, and began with 64 and with 512 positions: used for 64, one is the other.
#[test]
fn the_context_in_use_chooses_phis_factors() {
    let [file, short] =
        ["tiny-phi4-mini-long", "tiny-phi4-mini"].map(|name| Gguf::open(&tiny_model(name)).unwrap());
    let ropes = |model: Model| model.program.ropes;
    let expected = ropes(Model::load(&short).unwrap());
    for positions in [1, 64] {
        let model = Model::load_for(&file, positions).unwrap();
        assert_eq!((model.config.context, model.program.context), (512, 512));
        assert_eq!(ropes(model), expected, "{positions}");
    }
    let long = ropes(Model::load(&file).unwrap());
    assert_ne!(long, expected);
    for positions in [65, 512, 1000] {
        assert_eq!(ropes(Model::load_for(&file, positions).unwrap()), long, "{positions}");
    }
    assert_eq!(ropes(Model::load_for(&short, 1000).unwrap()), expected);
}
