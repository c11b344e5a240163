//! Every mix gives every tensor the format that llama.cpp's `llama-quantize` gives it;
//! `make_quantize_vectors.py` made the table.

use gleed_gguf::{Facts, Format, Mix};

const TABLE: &str = include_str!("../data/mixes.txt");

struct Model<'a> {
    name: &'a str,
    facts: Facts,
    tensors: Vec<(&'a str, Vec<usize>)>,
    /// The name and file type of each mix, whether with an importance matrix, and the format of each tensor.
    mixes: Vec<(&'a str, u32, bool, Vec<&'a str>)>,
}

fn models() -> Vec<Model<'static>> {
    let mut models: Vec<Model> = Vec::new();
    for line in TABLE.lines() {
        let mut words = line.split(' ');
        match words.next().unwrap() {
            "model" => {
                let name = words.next().unwrap();
                let mut fact = || words.next().unwrap().split_once('=').unwrap().1.parse().unwrap();
                let facts = Facts {
                    layers: fact(),
                    heads: fact(),
                    kv_heads: fact(),
                    experts: fact(),
                    importance: false,
                };
                models.push(Model { name, facts, tensors: Vec::new(), mixes: Vec::new() });
            }
            "tensor" => {
                let name = words.next().unwrap();
                let shape = words.map(|word| word.parse().unwrap()).collect();
                models.last_mut().unwrap().tensors.push((name, shape));
            }
            kind @ ("mix" | "weighted") => {
                let (name, id) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
                models.last_mut().unwrap().mixes.push((name, id, kind == "weighted", words.collect()));
            }
            other => panic!("unknown line {other}"),
        }
    }
    models
}

#[test]
fn every_mix_chooses_as_llama_quantize_does() {
    let mut compared = 0;
    for model in models() {
        let told = |mix: Mix| model.mixes.iter().any(|(name, ..)| *name == mix.name());
        assert!(Mix::all().all(told), "{}", model.name);
        let tensors: Vec<(&str, &[usize])> =
            model.tensors.iter().map(|(name, shape)| (*name, &shape[..])).collect();
        for (name, file_type, importance, formats) in &model.mixes {
            let mix = Mix::from_name(name).unwrap();
            assert_eq!(mix.file_type(), *file_type, "{name}");
            assert!(*importance || !mix.needs_importance(), "{name}");
            let choices = mix.plan(&tensors, &Facts { importance: *importance, ..model.facts });
            for ((choice, theirs), (tensor, shape)) in choices.iter().zip(formats).zip(&tensors) {
                // The models of the table are all F32.
                let ours = choice.format.unwrap_or(Format::F32);
                assert_eq!(ours.name(), *theirs, "{} in {name}: {tensor} {shape:?}", model.name);
                assert!(ours.row_bytes(shape[0]).is_ok());
                compared += 1;
            }
        }
    }
    assert!(compared > 15_000);
}

#[test]
fn the_order_of_tensors_does_not_matter() {
    for model in models() {
        let mut tensors: Vec<(&str, &[usize])> =
            model.tensors.iter().map(|(name, shape)| (*name, &shape[..])).collect();
        for mix in Mix::all() {
            let mut choices = mix.plan(&tensors, &model.facts);
            tensors.reverse();
            choices.reverse();
            assert_eq!(mix.plan(&tensors, &model.facts), choices, "{} in {}", model.name, mix.name());
        }
    }
}

#[test]
fn a_stand_in_is_told() {
    let facts = Facts { layers: 1, heads: 6, kv_heads: 6, experts: 0, importance: false };
    let tensors: [(&str, &[usize]); 3] = [
        ("output.weight", &[288, 32000]),
        ("blk.0.attn_q.weight", &[288, 288]),
        ("blk.0.ffn_down.weight", &[768, 288]),
    ];
    let choices = Mix::Q5_K_S.plan(&tensors, &facts);
    let told: Vec<_> = choices.iter().map(|choice| (choice.format, choice.instead_of)).collect();
    assert_eq!(told[0], (Some(Format::Q8_0), None));
    assert_eq!(told[1], (Some(Format::Q5_1), Some(Format::Q5_K)));
    assert_eq!(told[2], (Some(Format::Q5_K), None));
}

#[test]
fn names_lead_back_to_their_mix() {
    for mix in Mix::all() {
        assert_eq!(Mix::from_name(mix.name()).unwrap(), mix);
        assert_eq!(Mix::from_name(&mix.name().to_uppercase()).unwrap(), mix);
    }
    assert_eq!(Mix::from_name("Q4_K").unwrap(), Mix::Q4_K_M);
    let error = Mix::from_name("q7").unwrap_err().to_string();
    assert!(error.starts_with("unknown type q7; known types: f32 f16 bf16 q8_0"), "{error}");
}
