//! A hyper-parameter that nothing reads is an error where it changes the result, and nothing else is.

use crate::support::{VOCABULARY, tiny_metadata};
use gleed_gguf::{Array, Value};
use gleed_model::program::Op;
use gleed_model::{Error, Model};

/// Those that read nothing but what all have.
const PLAIN: [&str; 4] = ["llama", "qwen2", "qwen3", "gpt2"];

/// The unread keys of a tiny model of a family with one more key, or the key that was refused.
fn with(family: &str, key: &str, value: Value) -> Result<Vec<String>, String> {
    let mut metadata = tiny_metadata(family);
    metadata.set(key, value);
    match Model::plan(&metadata, VOCABULARY, |_| false) {
        Ok(model) => Ok(model.unread),
        Err(Error::UnknownKey { key, .. }) => Err(key),
        Err(error) => panic!("{key}: {error}"),
    }
}

#[test]
fn what_changes_the_result_is_refused() {
    for family in PLAIN {
        for (key, value) in [
            ("attention.sliding_window", Value::U32(128)),
            ("attention.scale", Value::F32(1.0)),
            ("attention.causal", Value::Bool(false)),
            ("attention.clamp_kqv", Value::F32(8.0)),
            ("attention.max_alibi_bias", Value::F32(8.0)),
            ("attention.something_new", Value::U32(3)),
            ("rope.dimension_sections", Value::Array(Array::I32(vec![8, 8, 8, 0]))),
            ("rope.freq_base_swa", Value::F32(1e4)),
            ("use_parallel_residual", Value::Bool(true)),
            ("attn_logit_softcapping", Value::F32(50.0)),
            ("final_logit_softcapping", Value::F32(30.0)),
            ("logit_scale", Value::F32(0.0625)),
            ("residual_scale", Value::F32(0.22)),
            ("embedding_scale", Value::F32(12.0)),
            ("leading_dense_block_count", Value::U32(1)),
            ("ssm.state_size", Value::U32(16)),
            ("hidden_act", Value::Str("relu".to_string())),
        ] {
            let full = format!("{family}.{key}");
            assert_eq!(with(family, &full, value), Err(full));
        }
    }
    // Families without experts do not pass them by.
    for family in ["qwen2", "gpt2"] {
        let full = format!("{family}.expert_count");
        assert_eq!(with(family, &full, Value::U32(8)), Err(full));
    }
    let message = {
        let mut metadata = tiny_metadata("qwen2");
        metadata.set("qwen2.attention.sliding_window", Value::U32(128));
        Model::plan(&metadata, VOCABULARY, |_| false).unwrap_err().to_string()
    };
    assert_eq!(
        message,
        "metadata key qwen2.attention.sliding_window is 128: it changes what the model computes, and this build does \
         not know how"
    );
}

#[test]
fn what_real_files_have_is_taken() {
    let zeros = Value::Array(Array::I32(vec![0; 4]));
    for family in PLAIN {
        assert_eq!(with(family, "general.name", Value::Str("x".to_string())), Ok(vec![]));
        for (key, value) in [
            ("vocab_size", Value::U32(67)),
            ("tensor_data_layout", Value::Str("Meta AI original pth".to_string())),
            ("pooling_type", Value::U32(3)),
            ("expert_count", Value::U32(0)),
            ("expert_used_count", Value::U32(2)),
            ("rope.scaling.finetuned", Value::Bool(true)),
            ("rope.scaling.original_context_length", Value::U32(256)),
            ("rope.scale_linear", Value::F32(1.0)),
            ("rope.dimension_sections", zeros.clone()),
            // What a converter writes where the model has none of it.
            ("attention.sliding_window", Value::U32(0)),
            ("attention.sliding_window", Value::U32(32_768)),
            ("attention.causal", Value::Bool(true)),
            ("attention.clamp_kqv", Value::F32(0.0)),
            ("attention.max_alibi_bias", Value::F32(0.0)),
            ("attention.scale", Value::F32(0.0)),
            ("attention.layer_norm_epsilon", Value::F32(1e-5)),
            ("use_parallel_residual", Value::Bool(false)),
            ("logit_scale", Value::F32(1.0)),
            ("final_logit_softcapping", Value::F32(0.0)),
        ] {
            assert_eq!(with(family, &format!("{family}.{key}"), value), Ok(vec![]), "{family} {key}");
        }
        // Other namespaces are not the model's.
        for key in ["tokenizer.ggml.model", "quantize.imatrix.file", "split.count", "clip.attention.scale"] {
            assert_eq!(with(family, key, Value::Str("anything".to_string())), Ok(vec![]), "{key}");
        }
        // Not known, and nothing in the name says that it matters.
        for key in ["training.steps", "source.url", "license", "tie_word_embeddings"] {
            let full = format!("{family}.{key}");
            assert_eq!(with(family, &full, Value::Str("anything".to_string())), Ok(vec![full]));
        }
    }
    // The scale that every model has.
    assert_eq!(with("qwen2", "qwen2.attention.scale", Value::F32(0.125)), Ok(vec![]));
}

/// The windows of the layers of a tiny Gemma 2 whose file says this of them.
fn windows(pattern: Option<Value>) -> Result<Vec<Option<usize>>, String> {
    let mut metadata = tiny_metadata("gemma2");
    if let Some(pattern) = pattern {
        metadata.set("gemma2.attention.sliding_window_pattern", pattern);
    }
    let model = Model::plan(&metadata, VOCABULARY, |_| false).map_err(|error| error.to_string())?;
    let attention = model.program.nodes.iter().filter_map(|node| match node.op {
        Op::Attention { attention, .. } => Some(attention.window),
        _ => None,
    });
    Ok(attention.collect())
}

#[test]
fn files_say_which_layers_see_a_window() {
    let listed = |layers: &[bool]| Some(Value::Array(Array::Bool(layers.to_vec())));
    assert_eq!(windows(None), Ok(vec![Some(21), None]));
    assert_eq!(windows(Some(Value::U32(1))), Ok(vec![None, None]));
    assert_eq!(windows(Some(Value::U32(6))), Ok(vec![Some(21), Some(21)]));
    assert_eq!(windows(listed(&[false, true, true])), Ok(vec![None, Some(21)]));
    let error = windows(listed(&[true])).unwrap_err();
    assert!(error.ends_with("sliding_window_pattern: an array of 1 for 2 layers"), "{error}");
    assert!(windows(Some(Value::Array(Array::F32(vec![1.0, 0.0])))).is_err());
}

#[test]
fn text_has_three_streams_of_positions() {
    let with = |fourth: i32| {
        let mut metadata = gleed_gguf::Metadata::default();
        for (key, value) in tiny_metadata("qwen2").iter() {
            metadata.set(key.replace("qwen2.", "qwen2vl."), value.clone());
        }
        metadata.set("general.architecture", Value::Str("qwen2vl".to_string()));
        let sections = Value::Array(Array::I32(vec![8, 12, 12, fourth]));
        metadata.set("qwen2vl.rope.dimension_sections", sections);
        Model::plan(&metadata, VOCABULARY, |_| false).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(with(0), Ok(()));
    let error = with(4).unwrap_err();
    assert!(error.contains("4 pairs in a fourth stream of positions"), "{error}");
}

#[test]
fn experts_that_cannot_be_are_refused() {
    for (key, value) in [
        ("expert_used_count", 8),
        ("expert_used_count", u32::MAX),
        ("expert_feed_forward_length", u32::MAX),
        ("expert_shared_feed_forward_length", u32::MAX),
        ("expert_gating_func", 9),
    ] {
        let mut metadata = tiny_metadata("qwen2moe");
        metadata.set(format!("qwen2moe.{key}"), Value::U32(value));
        let error = Model::plan(&metadata, VOCABULARY, |_| false).unwrap_err().to_string();
        assert!(error.contains("not a model") || error.contains("not known"), "{key}: {error}");
    }
}

/// Of a tiny Llama 4 with one more key: unit norms, rotations and the chunks of its layers.
fn llama4(key: &str, value: u32) -> Result<(usize, usize, Vec<Option<usize>>), String> {
    let mut metadata = tiny_metadata("llama4");
    metadata.set(format!("llama4.{key}"), Value::U32(value));
    let model = Model::plan(&metadata, VOCABULARY, |_| false).map_err(|error| error.to_string())?;
    let count = |kind| model.program.nodes.iter().filter(|node| node.op.kind() == kind).count();
    let chunks = model.program.nodes.iter().filter_map(|node| match node.op {
        Op::Attention { attention, .. } => Some(attention.chunk),
        _ => None,
    });
    Ok((count("unit-norm"), count("rope"), chunks.collect()))
}

/// As llama.cpp reads its files: 128 experts are Maverick, which has no norms of heads, and a window of nothing is a
/// model all of whose layers see everything.
#[test]
fn llama4_is_known_by_its_experts_and_its_window() {
    let chunked = vec![Some(27), Some(27), Some(27), None];
    // The fourth layer turns queries alone, by their temperature.
    assert_eq!(llama4("expert_count", 16), Ok((6, 7, chunked.clone())));
    assert_eq!(llama4("expert_count", 128), Ok((0, 7, chunked)));
    assert_eq!(llama4("attention.sliding_window", 0), Ok((8, 8, vec![None; 4])));
    let error = llama4("rope.dimension_count", 20).unwrap_err();
    assert!(error.contains("20 of 40 values of a head rotated"), "{error}");
    assert!(llama4("attention.temperature_length", 0).is_err());
}

/// The norms whose results attention and feed-forward of the first layer read, and whether the second comes before
/// anything is added to the residual stream.
fn halves(family: &str, key: Option<(&str, bool)>, second: bool) -> (String, String, bool) {
    let mut metadata = tiny_metadata(family);
    if let Some((key, value)) = key {
        metadata.set(format!("{family}.{key}"), Value::Bool(value));
    }
    let given = |name: &str| second && name.contains("attn_norm_2");
    let program = Model::plan(&metadata, VOCABULARY, given).unwrap().program;
    let at = |label: &str| program.nodes.iter().position(|node| node.labels == [label]).unwrap();
    let norm_of = |label: &str| {
        let Op::Linear { input, .. } = program.nodes[at(label)].op else { panic!("{label} is linear") };
        let mut before = program.nodes[..at(label)].iter().enumerate().rev();
        let found = before.find(|(_, node)| matches!(node.op, Op::Norm { out, .. } if out == input));
        let (index, node) = found.unwrap();
        (index, node.labels[0].clone())
    };
    let ((_, attention), (index, feed_forward)) = (norm_of("blk.0.attn_q"), norm_of("blk.0.ffn_up"));
    (attention, feed_forward, index < at("blk.0.attn_residual"))
}

#[test]
fn halves_of_a_layer_are_side_by_side() {
    let of = |attention: &str, feed_forward: &str, beside| {
        (format!("blk.0.{attention}"), format!("blk.0.{feed_forward}"), beside)
    };
    let parallel = "use_parallel_residual";
    assert_eq!(halves("gptneox", Some((parallel, true)), false), of("attn_norm", "ffn_norm", true));
    assert_eq!(halves("gptneox", Some((parallel, false)), false), of("attn_norm", "ffn_norm", false));
    assert_eq!(halves("falcon", None, false), of("attn_norm", "attn_norm", true));
    // The larger Falcons have a norm more, which is attention's.
    assert_eq!(halves("falcon", None, true), of("attn_norm_2", "attn_norm", true));
}
