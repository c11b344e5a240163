//! The reference executor against llama.cpp's logits and greedy tokens on tiny random models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::reference::Options;
use gleed_model::slots::InTurn;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Reference, Row};

#[derive(serde::Deserialize)]
struct Golden {
    prompt_ids: Vec<u32>,
    gen_ids: Vec<u32>,
    margins: Vec<f32>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where `./test` puts the models that are too large for the repository.
fn test_data() -> PathBuf {
    std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from)
}

/// The logits after the last of some new tokens of a sequence that holds `position` already.
fn append(executor: &mut Reference, slots: &mut InTurn, tokens: &[u32], position: usize) -> Vec<f32> {
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

fn argmax(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap() as u32
}

fn floats(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(root().join("tests/golden/tiny").join(name)).unwrap();
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn check(name: &str, limit: f32) {
    let path = test_data().join(format!("tiny/{name}.F32.gguf"));
    assert!(path.exists(), "{} is missing: run ./test, which makes it", path.display());
    let file = Arc::new(Gguf::open(&path).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    let golden = std::fs::read_to_string(root().join(format!("tests/golden/tiny/{name}.jsonl"))).unwrap();
    for (index, line) in golden.lines().enumerate() {
        let golden: Golden = serde_json::from_str(line).unwrap();
        let total = golden.prompt_ids.len() + golden.gen_ids.len();
        let make = |rules| {
            let program = fuse(&model.program, rules);
            let (arithmetic, kv, pages) = (Arithmetic::F32, KvType::F32, total.div_ceil(PAGE));
            let options = Options { arithmetic, rounds_to_groups: None, kv, max_rows: total, pages };
            Reference::new(file.clone(), program, options).unwrap().with_slots(InTurn::slots(1)).unwrap()
        };

        // Nothing but the order of additions differs.
        let (mut executor, mut slots) = (make(Rules::NONE), InTurn::default());
        let mut logits = append(&mut executor, &mut slots, &golden.prompt_ids, 0);
        let truth = floats(&format!("{name}.p{index}.logits.f32"));
        let mean = truth.iter().sum::<f32>() / truth.len() as f32;
        let spread = (truth.iter().map(|t| (t - mean).powi(2)).sum::<f32>() / truth.len() as f32).sqrt();
        let difference = worst(&logits, &truth) / spread;
        println!("{name} prompt {index}: {difference:.1e} of the spread");
        assert!(difference < limit, "{name} prompt {index}: logits differ by {difference} of their spread");

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

/// What the order of f32 additions may cost, of the logits' spread.
const ADDITIONS: f32 = 3e-5;
/// llama.cpp looks GELU up in a table of f16 values, which costs it two digits.
const GELU_TABLE: f32 = 3e-3;
/// The same twice in each of many layers. With its table imitated, the 4e-3 of Gemma 4 become 9e-4.
const GELU_TABLE_OFTEN: f32 = 6e-3;

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
            let mut known = vec![$($name.to_string()),*];
            let files = std::fs::read_dir(root().join("tests/golden/tiny")).unwrap();
            let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
            // Models without logits are the embedding tests', and eight thousand tokens are for the CPU's.
            let mut found: Vec<_> =
                names.filter_map(|name| Some(name.strip_suffix(".p0.logits.f32")?.to_string())).collect();
            found.retain(|name| name != "tiny-llama4-long");
            known.sort();
            found.sort();
            assert_eq!(known, found);
        }
    };
}

families! {
    deepseek2_with_a_latent_cache: "tiny-deepseek2", ADDITIONS;
    deepseek2_lite: "tiny-deepseek2-lite", ADDITIONS;
    deepseek2_as_older_files_have_it: "tiny-deepseek2-old", ADDITIONS;
    falcon_h1_with_attention_beside_mamba2: "tiny-falcon-h1", ADDITIONS;
    gemma: "tiny-gemma", GELU_TABLE;
    gemma2_with_soft_caps_and_windows: "tiny-gemma2", GELU_TABLE;
    gemma3_with_windows_and_two_ropes: "tiny-gemma3", GELU_TABLE;
    gemma4_with_shared_keys_and_embeddings_of_layers: "tiny-gemma4", GELU_TABLE_OFTEN;
    gemma4_with_experts_beside: "tiny-gemma4-moe", GELU_TABLE;
    glm4: "tiny-glm4", ADDITIONS;
    glm4moe: "tiny-glm4moe", ADDITIONS;
    gpt_oss: "tiny-gpt-oss", ADDITIONS;
    gpt2: "tiny-gpt2", GELU_TABLE;
    granite: "tiny-granite", ADDITIONS;
    granite_hybrid: "tiny-granite-hybrid", ADDITIONS;
    granitemoe: "tiny-granitemoe", ADDITIONS;
    lfm2_with_short_convolutions: "tiny-lfm2", ADDITIONS;
    lfm2moe: "tiny-lfm2moe", ADDITIONS;
    llama: "tiny-llama", ADDITIONS;
    llama3_with_rotary_factors: "tiny-llama3", ADDITIONS;
    llama4: "tiny-llama4", ADDITIONS;
    mamba: "tiny-mamba", ADDITIONS;
    mamba2: "tiny-mamba2", ADDITIONS;
    mistral3: "tiny-mistral3", ADDITIONS;
    mistral3_beyond_its_first_context: "tiny-mistral3-long", ADDITIONS;
    mixtral: "tiny-mixtral", ADDITIONS;
    nemotron: "tiny-nemotron", ADDITIONS;
    nemotron_h_with_one_mixer_a_layer: "tiny-nemotron_h", ADDITIONS;
    nemotron_h_moe: "tiny-nemotron_h_moe", ADDITIONS;
    nemotron_h_moe_with_latent_experts: "tiny-nemotron_h_moe-latent", ADDITIONS;
    olmo2: "tiny-olmo2", ADDITIONS;
    olmo3_with_windows: "tiny-olmo3", ADDITIONS;
    olmoe: "tiny-olmoe", ADDITIONS;
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
    smollm3: "tiny-smollm3", ADDITIONS;
}
