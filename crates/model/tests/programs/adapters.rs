//! Adapters: files that are none, or for another model, are refused in one line; programs with them are sound.

use std::sync::Arc;

use gleed_gguf::{Array, Format, Gguf, Metadata, Value};
use gleed_model::adapters::{Adapter, join};
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::Op;
use gleed_model::verify::{verify, verify_flow};
use gleed_model::{Error, Model, StepError, split};

use crate::support::adapters::{adapter_metadata, random_adapter, tiny_adapted};
use crate::support::{FAMILIES, RECURRENT, file, tiny};

type Tensor = (String, Vec<usize>, Format, Vec<u8>);

fn tensor(name: &str, shape: &[usize]) -> Tensor {
    (name.to_string(), shape.to_vec(), Format::F32, vec![0; 4 * shape.iter().product::<usize>()])
}

/// Both matrices of a weight.
fn pair(weight: &str, lower: &[usize], upper: &[usize]) -> [Tensor; 2] {
    [tensor(&format!("{weight}.lora_a"), lower), tensor(&format!("{weight}.lora_b"), upper)]
}

/// A tiny Llama: 256 columns, six query heads of 40, vocabulary of 67.
fn llama() -> Model {
    Model::load(&tiny("llama", &[Format::F16], 1).0).unwrap()
}

fn read(metadata: &Metadata, tensors: &[Tensor], model: &Model) -> Result<Adapter, String> {
    let adapter = Arc::into_inner(file(metadata, tensors)).unwrap();
    Adapter::read(adapter, 1.0, model).map_err(|error| {
        assert!(matches!(error, Error::Adapter { .. }));
        let line = error.to_string();
        assert!(line.starts_with("tiny.gguf: ") && line.lines().count() == 1, "{line}");
        line
    })
}

const QUERY: &str = "blk.0.attn_q.weight";

#[test]
fn what_is_no_adapter_is_refused() {
    let (model, whole) = (llama(), pair(QUERY, &[256, 4], &[4, 240]));
    assert!(read(&adapter_metadata("llama"), &whole, &model).is_ok());
    let text = |text: &str| Value::Str(text.to_string());
    let tokens = Value::Array(Array::U32(vec![1, 2]));
    for (key, value, expected) in [
        ("general.type", text("model"), "is not a LoRA adapter: general.type is model instead of adapter"),
        ("general.type", Value::U32(1), "general.type"),
        ("adapter.type", text("control\u{1b}"), "adapter.type is control\\u{1b} instead of lora"),
        ("general.architecture", text("qwen2"), "an adapter of architecture qwen2, and the model is llama"),
        ("adapter.lora.alpha", Value::F32(f32::NAN), "adapter.lora.alpha is NaN"),
        ("adapter.lora.alpha", Value::F32(f32::INFINITY), "adapter.lora.alpha is inf"),
        ("adapter.lora.alpha", text("16"), "adapter.lora.alpha"),
        ("adapter.alora.invocation_tokens", tokens, "aLoRA"),
    ] {
        let mut metadata = adapter_metadata("llama");
        metadata.set(key, value);
        let line = read(&metadata, &whole, &model).unwrap_err();
        assert!(line.contains(expected), "{line:?} lacks {expected:?}");
    }
    let without = read(&Metadata::default(), &whole, &model).unwrap_err();
    assert!(without.contains("general.type is nothing"), "{without}");
    for scale in [f32::NAN, f32::NEG_INFINITY] {
        let adapter = Arc::into_inner(file(&adapter_metadata("llama"), &whole)).unwrap();
        let error = Adapter::read(adapter, scale, &model).unwrap_err().to_string();
        assert!(error.contains("its scale is"), "{error}");
    }
}

#[test]
fn tensors_of_other_models_are_refused() {
    let model = llama();
    for (tensors, expected) in [
        (vec![], "has no matrices"),
        (vec![tensor("blk.0.attn_norm.weight", &[256])], "has no matrices"),
        (vec![tensor("x", &[4])], "tensor x is no matrix of an adapter"),
        (
            vec![tensor("blk.0.attn_q.weight.lora_b", &[4, 240])],
            "tensor blk.0.attn_q.weight.lora_a is missing",
        ),
        (
            vec![tensor("blk.0.attn_q.weight.lora_a", &[256, 4])],
            "tensor blk.0.attn_q.weight.lora_b is missing",
        ),
        (
            pair("blk.9.attn_q.weight", &[256, 4], &[4, 240]).to_vec(),
            "changes blk.9.attn_q.weight, which is not",
        ),
        (pair("blk.0.attn_norm.weight", &[256, 4], &[4, 1]).to_vec(), "changes blk.0.attn_norm.weight"),
        (pair("bad\nname", &[256, 4], &[4, 240]).to_vec(), "changes bad\\nname"),
        (pair(QUERY, &[255, 4], &[4, 240]).to_vec(), "lora_a has shape [255, 4]"),
        (pair(QUERY, &[256, 4], &[4, 241]).to_vec(), "lora_b has shape [4, 241]"),
        (pair(QUERY, &[256, 4], &[5, 240]).to_vec(), "lora_a has shape [256, 4]"),
        (pair(QUERY, &[4, 256], &[240, 4]).to_vec(), "lora_a has shape [4, 256]"),
        (pair(QUERY, &[256, 4, 2], &[4, 240, 2]).to_vec(), "lora_a has shape [256, 4, 2]"),
        (pair(QUERY, &[256], &[1, 240]).to_vec(), ""),
        // Embeddings are the other way round.
        (pair("token_embd.weight", &[256, 4], &[4, 67]).to_vec(), "lora_a has shape [256, 4]"),
        (pair("token_embd.weight", &[4, 67], &[4, 256]).to_vec(), ""),
    ] {
        match read(&adapter_metadata("llama"), &tensors, &model) {
            Ok(adapter) => assert!(expected.is_empty() && adapter.weights() == 1, "lacks {expected:?}"),
            Err(line) => {
                assert!(!expected.is_empty() && line.contains(expected), "{line:?} lacks {expected:?}")
            }
        }
    }
    let mut tensors = pair(QUERY, &[256, 4], &[4, 240]).to_vec();
    tensors.push(tensor("blk.0.attn_norm.weight", &[256]));
    let adapter = read(&adapter_metadata("llama"), &tensors, &model).unwrap();
    assert_eq!(adapter.unused, ["blk.0.attn_norm.weight"]);
}

/// What a file is cut to is refused when it is opened, or reads as an adapter that is whole.
#[test]
fn cut_files_do_no_harm() {
    let (model, folder) = (llama(), tempfile::tempdir().unwrap());
    let path = folder.path().join("cut.gguf");
    let specs: Vec<_> = pair(QUERY, &[256, 4], &[4, 240])
        .iter()
        .map(|(name, shape, format, _)| gleed_gguf::TensorSpec {
            name: name.clone(),
            shape: shape.clone(),
            format: *format,
        })
        .collect();
    let mut writer = gleed_gguf::Writer::create(&path, &adapter_metadata("llama"), &specs).unwrap();
    specs.iter().for_each(|spec| writer.write(&spec.name, &vec![0; spec.bytes().unwrap()]).unwrap());
    writer.finish().unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(37) {
        assert!(Gguf::from_vec("cut.gguf", whole[..length].to_vec()).is_err(), "{length}");
    }
    assert!(Adapter::read(Gguf::from_vec("whole.gguf", whole).unwrap(), 1.0, &model).is_ok());
}

#[test]
fn programs_with_adapters_are_sound() {
    for family in FAMILIES.into_iter().chain(RECURRENT) {
        let (_, plain) = tiny_adapted(family, &[Format::Q8_0], &[1, 2]);
        for program in [plain.clone(), fuse(&plain, Rules::ALL)] {
            assert_eq!((verify(&program), verify_flow(&program)), (Ok(()), Ok(())), "{family}");
            for layer in 0..program.layers() {
                let Some(halves) = split(&program, layer) else { continue };
                for half in [halves.first, halves.second] {
                    assert_eq!((verify(&half), half.adapters.len()), (Ok(()), 2), "{family} {layer}");
                }
            }
            let added = program.nodes.iter().filter(|node| matches!(node.op, Op::AddLowRank { .. })).count();
            assert!(added > 5, "{family}: {added}");
        }
    }
}

#[test]
fn linear_ops_of_one_input_stay_one() {
    let (base, _) = tiny("llama", &[Format::Q8_0], 5);
    let linears = |program: &gleed_model::Program| {
        program.nodes.iter().filter(|node| matches!(node.op, Op::Linear { .. })).count()
    };
    let model = Model::load(&base).unwrap();
    let plain = linears(&fuse(&model.program, Rules::ALL));
    // Q, K and V in one op, and so are their lower matrices.
    let tensors: Vec<Tensor> = ["q", "k", "v"]
        .into_iter()
        .zip([240, 80, 48])
        .flat_map(|(name, rows)| pair(&format!("blk.0.attn_{name}.weight"), &[256, 4], &[4, rows]))
        .collect();
    let adapter = read(&adapter_metadata("llama"), &tensors, &model).unwrap();
    let adapted = model.adapted(&[adapter]).unwrap();
    assert_eq!(linears(&fuse(&adapted.program, Rules::ALL)), plain + 1);
}

#[test]
fn names_do_not_meet() {
    // The same adapter twice.
    let (base, _) = tiny("qwen2", &[Format::Q8_0], 5);
    let model = Model::load(&base).unwrap();
    let adapters = [1, 1].map(|seed| Adapter::read(random_adapter(&model, seed), 1.0, &model).unwrap());
    let joined = join(Arc::into_inner(base).unwrap(), &adapters).unwrap();
    let program = model.adapted(&adapters).unwrap().program;
    assert!(program.weights.iter().all(|weight| joined.tensor(&weight.name).is_some()));
}

#[test]
fn batches_with_other_scales_are_refused() {
    use gleed_model::batch::check;
    use gleed_model::{Batch, Row};
    let (_, program) = tiny_adapted("llama", &[Format::Q8_0], &[1, 2]);
    let of = |scales: &[f32]| {
        let mut batch = Batch::default();
        let table = batch.add_table(&[0]);
        batch.adapt(table, scales);
        batch.push(Row { table, position: 0, token: 0, wants_logits: true });
        let groups = gleed_model::groups::PageGroups::of(&program).with_pages(1, 1, None);
        check(&batch, &program, 1, &groups)
    };
    assert_eq!(of(&[0.5, -2.0]), Ok(()));
    assert_eq!(of(&[0.5]), Err(StepError::Adapters { table: 0, found: 1, expected: 2 }));
    assert_eq!(of(&[0.5, f32::NAN]), Err(StepError::Adapters { table: 0, found: 2, expected: 2 }));
    assert!(of(&[0.5]).unwrap_err().is_refusal());
}
