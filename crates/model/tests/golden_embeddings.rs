//! The reference executor against llama.cpp's pooled vectors on tiny random embedding models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Output;
use gleed_model::reference::Options;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Reference, Row};

#[derive(serde::Deserialize)]
struct Golden {
    prompt_ids: Vec<u32>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where `./test` puts the models that are too large for the repository.
fn test_data() -> PathBuf {
    std::env::var_os("GLEED_TEST_DATA").map_or_else(|| root().join(".cache/test-data"), PathBuf::from)
}

/// The vector of a text that is alone in its step.
fn embed(executor: &mut Reference, tokens: &[u32]) -> Vec<f32> {
    let Output::Embedding(pooling) = executor.program().output else { panic!("it gives logits") };
    let mut batch = Batch::default();
    let pages: Vec<u32> = (0..executor.page_count() as u32).rev().collect();
    let table = batch.add_table(&pages);
    for (position, &token) in tokens.iter().enumerate() {
        let wants_logits = position == pooling.wanted(tokens.len());
        batch.push(Row { table, position: position as u32, token, wants_logits });
    }
    executor.step(&batch, &mut ()).unwrap();
    executor.logits(0).to_vec()
}

fn check(name: &str, limit: f32) {
    let path = test_data().join(format!("tiny/{name}.F32.gguf"));
    assert!(path.exists(), "{} is missing: run ./test, which makes it", path.display());
    let file = Arc::new(Gguf::open(&path).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    let folder = root().join("tests/golden/tiny");
    let golden = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    for (index, line) in golden.lines().enumerate() {
        let Golden { prompt_ids } = serde_json::from_str(line).unwrap();
        let run = |rules| {
            let (arithmetic, kv, max_rows) = (Arithmetic::F32, KvType::F32, prompt_ids.len());
            let pages = max_rows.div_ceil(PAGE);
            let options = Options { arithmetic, rounds_to_groups: None, kv, max_rows, pages };
            let executor = Reference::new(file.clone(), fuse(&model.program, rules), options);
            embed(&mut executor.unwrap(), &prompt_ids)
        };
        let ours = run(Rules::NONE);
        let truth = std::fs::read(folder.join(format!("{name}.p{index}.embedding.f32"))).unwrap();
        let truth: Vec<f32> = truth.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        assert_eq!(ours.len(), truth.len());
        let mean = truth.iter().sum::<f32>() / truth.len() as f32;
        let spread = (truth.iter().map(|t| (t - mean).powi(2)).sum::<f32>() / truth.len() as f32).sqrt();
        let worst = ours.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / spread;
        println!("{name} prompt {index}: {worst:.1e} of the spread");
        assert!(worst < limit, "{name} prompt {index}: vectors differ by {worst} of their spread");
        assert_eq!(ours, run(Rules::ALL), "{name} prompt {index}: fused");
    }
}

/// What the order of f32 additions may cost, of the vector's spread.
const ADDITIONS: f32 = 3e-5;
/// llama.cpp looks GELU up in a table of f16 values of its tanh form, which costs it two digits.
const GELU_TABLE: f32 = 3e-3;

/// A test for each golden file: its name, and how close the vectors are.
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
            let mut found: Vec<_> =
                names.filter_map(|name| Some(name.strip_suffix(".p0.embedding.f32")?.to_string())).collect();
            known.sort();
            found.sort();
            assert_eq!(known, found);
        }
    };
}

families! {
    bert: "tiny-bert", GELU_TABLE;
    jina_bert_v2_with_alibi: "tiny-jina-bert-v2", GELU_TABLE;
    jina_bert_v3: "tiny-jina-bert-v3", GELU_TABLE;
    gemma_embedding: "tiny-gemma-embedding", GELU_TABLE;
    modern_bert: "tiny-modern-bert", ADDITIONS;
    nomic_bert: "tiny-nomic-bert", ADDITIONS;
    nomic_bert_moe: "tiny-nomic-bert-moe", GELU_TABLE;
    qwen3_embedding: "tiny-qwen3-embedding", ADDITIONS;
}
