//! Pooled vectors of embedding models.

use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Output;
use gleed_model::reference::Options;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Model, Reference, Row};
use gleed_testing::golden::{
    ADDITIONS, GELU_TABLE, Golden, floats, golden, hold, tiny_model, tiny_models_with,
};

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
    let file = Arc::new(Gguf::open(&tiny_model(name)).unwrap());
    let model = Model::load(&file).unwrap();
    assert_eq!(model.unused, Vec::<String>::new());
    for (index, Golden { prompt_ids, .. }) in golden(&format!("tiny/{name}")).iter().enumerate() {
        let run = |rules| {
            let (arithmetic, kv, max_rows) = (Arithmetic::F32, KvType::F32, prompt_ids.len());
            let pages = max_rows.div_ceil(PAGE);
            let options = Options { arithmetic, rounds_to_groups: None, kv, max_rows, pages };
            let executor = Reference::new(file.clone(), fuse(&model.program, rules), options);
            embed(&mut executor.unwrap(), prompt_ids)
        };
        let ours = run(Rules::NONE);
        let truth = floats(&format!("tiny/{name}.p{index}.embedding.f32"));
        hold("reference", name, index, &ours, &truth, limit);
        assert_eq!(ours, run(Rules::ALL), "{name} prompt {index}: fused");
    }
}

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
            let mut known = vec![$($name),*];
            known.sort();
            assert_eq!(known, tiny_models_with(".p0.embedding.f32"));
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
