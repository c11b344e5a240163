//! The reference executor against the logits of Hugging Face transformers, on small random models of
//! every family and of every rotary scaling. `tests/transformers/make.py` made the files.

use std::sync::Arc;

use gleed_gguf::Gguf;
use gleed_model::arithmetic::PAGE;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::program::{Activation, Attention, Op};
use gleed_model::recurrence::Convolution;
use gleed_model::reference::Options;
use gleed_model::rope::{Pairing, Temperature};
use gleed_model::routing::{Gate, Routing};
use gleed_model::slots::InTurn;
use gleed_model::{Arithmetic, Batch, Executor, KvType, Program, Reference, Row};

/// Both sides compute in f32 and differ only in the order of additions: at most 1.2e-5 was
/// measured, in logits whose standard deviation is 1 to 2.
const LIMIT: f32 = 6e-5;
/// What leaving out any detail of a model must move some logit by, at the very least.
const VISIBLE: f32 = 100.0 * LIMIT;

#[derive(serde::Deserialize)]
struct Truth {
    sequences: Vec<Sequence>,
}

#[derive(serde::Deserialize)]
struct Sequence {
    tokens: Vec<u32>,
    /// The positions whose logits are stored.
    positions: Vec<usize>,
}

/// A model and what transformers computes with it.
struct Case {
    name: &'static str,
    file: Arc<Gguf>,
    program: Program,
    sequences: Vec<Sequence>,
    /// `[sequence][stored position]`, each of the vocabulary's size.
    logits: Vec<Vec<Vec<f32>>>,
}

impl Case {
    fn open(name: &'static str) -> Case {
        let (file, model, Truth { sequences }) = crate::open("data", name);
        let bytes = std::fs::read(crate::data("data", name, "logits.f32")).unwrap();
        let floats: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let mut rows = floats.chunks_exact(model.program.vocabulary).map(<[f32]>::to_vec);
        let logits = sequences.iter().map(|s| rows.by_ref().take(s.positions.len()).collect()).collect();
        assert_eq!(rows.len(), 0, "{name}: more logits than positions");
        Case { name, file, program: model.program, sequences, logits }
    }

    /// A program's logits at the stored positions of a sequence, computed in batches of up to `rows` rows.
    fn run(&self, program: &Program, sequence: usize, rows: usize) -> Vec<Vec<f32>> {
        let Sequence { tokens, positions } = &self.sequences[sequence];
        let pages = tokens.len().div_ceil(PAGE);
        let (arithmetic, kv, rounds_to_groups) = (Arithmetic::F32, KvType::F32, None);
        let options = Options { arithmetic, rounds_to_groups, kv, max_rows: rows, pages };
        let executor = Reference::new(self.file.clone(), program.clone(), options).unwrap();
        let mut executor = executor.with_slots(InTurn::slots(1)).unwrap();
        let (mut logits, mut slots) = (vec![], InTurn::default());
        for (chunk, tokens) in tokens.chunks(rows).enumerate() {
            let mut batch = Batch::default();
            let table = batch.add_table(&(0..pages as u32).rev().collect::<Vec<_>>());
            for (i, &token) in tokens.iter().enumerate() {
                let position = chunk * rows + i;
                let wants_logits = positions.contains(&position);
                batch.push(Row { table, position: position as u32, token, wants_logits });
            }
            slots.go_on(&mut batch);
            executor.step(&batch, &mut ()).unwrap();
            logits.extend((0..batch.wanted().count()).map(|i| executor.logits(i).to_vec()));
        }
        logits
    }

    /// The largest difference from transformers, over all sequences and stored positions.
    fn difference(&self, program: &Program) -> f32 {
        let mut worst = 0f32;
        for (index, truth) in self.logits.iter().enumerate() {
            let logits = self.run(program, index, self.sequences[index].tokens.len());
            assert_eq!(logits.len(), truth.len());
            let pairs = logits.iter().flatten().zip(truth.iter().flatten());
            worst = pairs.map(|(a, b)| (a - b).abs()).fold(worst, f32::max);
        }
        worst
    }

    /// A wrong program must be visibly wrong: otherwise the comparison would not notice that mistake.
    fn notices(&self, what: &str, change: impl Fn(&mut Program)) {
        let mut program = self.program.clone();
        change(&mut program);
        assert_ne!(program, self.program, "{}: {what} changes nothing", self.name);
        let difference = self.difference(&program);
        assert!(difference > VISIBLE, "{}: {what} moves the logits by {difference} only", self.name);
    }
}

fn argmax(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b]).then(b.cmp(&a))).unwrap()
}

/// Holds a model against transformers; returns it for checks of what is special about it.
fn check(name: &'static str) -> Case {
    let case = Case::open(name);
    let fused = fuse(&case.program, Rules::ALL);
    assert!(fused.nodes.len() < case.program.nodes.len());
    for program in [&case.program, &fused] {
        let difference = case.difference(program);
        assert!(difference < LIMIT, "{name}: logits differ by {difference}");
    }
    for (index, truth) in case.logits.iter().enumerate() {
        let logits = case.run(&case.program, index, case.sequences[index].tokens.len());
        for ((logits, truth), position) in logits.iter().zip(truth).zip(&case.sequences[index].positions) {
            assert_eq!(argmax(logits), argmax(truth), "{name}: sequence {index}, position {position}");
        }
        // A row's result does not depend on the batch it came in.
        assert_eq!(case.run(&fused, index, 13), logits, "{name}: sequence {index} in batches of 13");
    }
    case.notices("epsilon", |p| {
        each(p, |op| {
            if let Op::Norm { norm, .. } = op {
                norm.epsilon = 0.0;
            }
        })
    });
    case
}

fn each(program: &mut Program, change: impl Fn(&mut Op)) {
    program.nodes.iter_mut().for_each(|n| change(&mut n.op));
}

/// Takes the biases from the linear ops of that name.
fn without_bias(program: &mut Program, label: &str) {
    for node in &mut program.nodes {
        if let Op::Linear { parts, .. } = &mut node.op
            && node.labels[0].ends_with(label)
        {
            parts.iter_mut().for_each(|p| p.bias = None);
        }
    }
}

/// Takes out all plain ops of that name.
fn without(program: &mut Program, label: &str) {
    program.nodes.retain(|n| !n.labels[0].ends_with(label));
}

/// Replaces the rotary frequencies by those that the base alone gives.
fn plain_frequencies(program: &mut Program, base: f64) {
    for rope in &mut program.ropes {
        let dimensions = rope.dimensions as f64;
        for (pair, frequency) in rope.frequencies.iter_mut().enumerate() {
            *frequency = base.powf(-2.0 * pair as f64 / dimensions);
        }
    }
}

fn pair(program: &mut Program, pairing: Pairing) {
    program.ropes.iter_mut().for_each(|r| r.pairing = pairing);
}

#[test]
fn llama() {
    let case = check("llama");
    case.notices("pairing", |p| pair(p, Pairing::SplitHalf));
    case.notices("base", |p| plain_frequencies(p, 11_000.0));
}

#[test]
fn llama_with_linear_scaling() {
    check("llama-linear").notices("scaling", |p| plain_frequencies(p, 10_000.0));
}

#[test]
fn llama_with_yarn() {
    let case = check("llama-yarn");
    case.notices("scaling", |p| plain_frequencies(p, 10_000.0));
    case.notices("magnitude", |p| p.ropes[0].magnitude = 1.0);
}

#[test]
fn llama3_with_rotary_factors() {
    check("llama3").notices("factors", |p| plain_frequencies(p, 500_000.0));
}

#[test]
fn llama_with_biases() {
    let case = check("llama-bias");
    for label in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"] {
        case.notices(label, |p| without_bias(p, label));
    }
}

#[test]
fn llama_with_its_own_head_size() {
    let case = check("llama-head-dim");
    assert_eq!(case.program.caches[0].key_dim, 24);
    case.notices("scale", |p| {
        each(p, |op| {
            if let Op::Attention { attention: Attention { scale, .. }, .. } = op {
                *scale = 0.25;
            }
        })
    });
}

#[test]
fn mistral() {
    check("mistral").notices("pairing", |p| pair(p, Pairing::SplitHalf));
}

#[test]
fn qwen2() {
    let case = check("qwen2");
    case.notices("pairing", |p| pair(p, Pairing::Interleaved));
    case.notices("attn_v", |p| without_bias(p, "attn_v"));
}

#[test]
fn qwen2_with_yarn() {
    let case = check("qwen2-yarn");
    case.notices("scaling", |p| plain_frequencies(p, 1e6));
    case.notices("magnitude", |p| p.ropes[0].magnitude = 1.0);
}

#[test]
fn qwen3() {
    let case = check("qwen3");
    case.notices("pairing", |p| pair(p, Pairing::Interleaved));
    case.notices("attn_q_norm", |p| without(p, "attn_q_norm"));
    case.notices("attn_k_norm", |p| without(p, "attn_k_norm"));
}

/// Changes the attention of every layer.
fn attention(program: &mut Program, change: impl Fn(&mut Attention)) {
    each(program, |op| {
        if let Op::Attention { attention, .. } = op {
            change(attention);
        }
    });
}

#[test]
fn gemma2_with_windows_and_soft_caps() {
    let case = check("gemma2");
    case.notices("window", |p| attention(p, |a| a.window = a.window.map(|window| window + 1)));
    case.notices("cap of scores", |p| attention(p, |a| a.soft_cap = None));
    for label in ["soft_cap", "embed_scale", "post_attention_norm", "post_ffw_norm"] {
        case.notices(label, |p| without(p, label));
    }
}

#[test]
fn gemma3_with_windows_and_two_rotary_tables() {
    let case = check("gemma3");
    case.notices("window", |p| attention(p, |a| a.window = a.window.map(|window| window + 1)));
    case.notices("the other table", |p| p.ropes.swap(0, 1));
    case.notices("attn_k_norm", |p| without(p, "attn_k_norm"));
}

#[test]
fn gemma4_with_shared_keys_and_experts_beside() {
    let case = check("gemma4");
    case.notices("window", |p| attention(p, |a| a.window = a.window.map(|window| window + 1)));
    case.notices("scale", |p| attention(p, |a| a.scale = 0.25));
    case.notices("whose keys are read", |p| attention(p, |a| a.cache = [0, 0, 2][a.cache]));
    case.notices("pairs that do not turn", |p| p.ropes[0].frequencies[3..].fill(0.1));
    for label in [
        "attn_v_norm",
        "per_layer_proj_norm",
        "per_layer_embed_scale",
        "per_layer_residual",
        "layer_output_scale",
        "ffn_gate_inp_scale",
        "post_ffw_norm_1",
        "post_ffw_norm_2",
        "ffn_beside_add",
    ] {
        case.notices(label, |p| without(p, label));
    }
    case.notices("factors of experts", |p| {
        each(p, |op| {
            if let Op::Route { routing, .. } = op {
                routing.factors = None;
            }
        })
    });
}

#[test]
fn gemma3n_with_streams_and_sparse_gates() {
    let case = check("gemma3n");
    for label in [
        "altup_proj_length",
        "altup_unembd_length",
        "altup_router_scale",
        "altup_router_tanh",
        "laurel_post_norm",
        "laurel_residual",
        "ffn_gate_sparse",
        "per_layer_residual",
        "altup_mean_add",
    ] {
        case.notices(label, |p| without(p, label));
    }
}

#[test]
fn granite_with_four_factors() {
    let case = check("granite");
    case.notices("scale", |p| attention(p, |a| a.scale = 0.25));
    for label in ["embed_scale", "attn_scale", "ffn_scale", "logit_scale"] {
        case.notices(label, |p| without(p, label));
    }
}

#[test]
fn olmo3_with_norms_over_whole_rows() {
    let case = check("olmo3");
    case.notices("window", |p| attention(p, |a| a.window = a.window.map(|window| window + 1)));
    for label in ["attn_q_norm", "attn_k_norm", "post_attention_norm"] {
        case.notices(label, |p| without(p, label));
    }
}

#[test]
fn gpt2() {
    let case = check("gpt2");
    case.notices("positions", |p| without(p, "positions"));
    case.notices("attn_qkv", |p| without_bias(p, "attn_qkv"));
    case.notices("ffn_down", |p| without_bias(p, "ffn_down"));
}

#[test]
fn mamba2_with_scans_of_heads() {
    let case = check("mamba2");
    case.notices("ssm_norm", |p| without(p, "ssm_norm"));
    case.notices("SiLU after the convolution", |p| convolutions(p, |c| c.silu = false));
    case.notices("its bias", |p| convolutions(p, |c| c.bias = None));
    case.notices("bias of time steps", |p| {
        each(p, |op| {
            if let Op::Scan { scan, .. } = op {
                scan.dt_bias = None;
            }
        })
    });
    case.notices("what goes past the state", |p| {
        each(p, |op| {
            if let Op::Scan { scan, .. } = op {
                scan.skip = scan.decay;
            }
        })
    });
}

#[test]
fn qwen35_with_the_gated_delta_rule() {
    let case = check("qwen35");
    case.notices("order of key heads", |p| {
        each(p, |op| {
            if let Op::DeltaRule { rule, .. } = op {
                rule.in_turn = false;
            }
        })
    });
    case.notices("scale", |p| {
        each(p, |op| {
            if let Op::DeltaRule { rule, .. } = op {
                rule.scale = 1.0;
            }
        })
    });
    case.notices("SiLU after the convolution", |p| convolutions(p, |c| c.silu = false));
    for label in ["ssm_q_norm", "ssm_k_norm", "ssm_norm", "attn_q_norm"] {
        case.notices(label, |p| without(p, label));
    }
    case.notices("gate of attention", |p| {
        each(p, |op| {
            if let Op::Activate { activation: activation @ Activation::Sigmoid, .. } = op {
                *activation = Activation::Silu;
            }
        })
    });
}

/// Changes every convolution.
fn convolutions(program: &mut Program, change: impl Fn(&mut Convolution)) {
    each(program, |op| {
        if let Op::Convolve { convolution, .. } = op {
            change(convolution);
        }
    });
}

/// Changes every choice of experts.
fn routing(program: &mut Program, change: impl Fn(&mut Routing)) {
    each(program, |op| {
        if let Op::Route { routing, .. } = op {
            change(routing);
        }
    });
}

#[test]
fn mixtral_with_experts() {
    let case = check("mixtral");
    case.notices("weights divided by their sum", |p| routing(p, |r| r.normalised = false));
}

#[test]
fn gpt_oss_with_sinks_and_biased_experts() {
    let case = check("gpt-oss");
    case.notices("sinks", |p| attention(p, |a| a.sinks = None));
    case.notices("window", |p| attention(p, |a| a.window = a.window.map(|window| window + 1)));
    case.notices("softmax of the chosen", |p| routing(p, |r| r.gate = Gate::Sigmoid));
    case.notices("biases of experts", |p| {
        each(p, |op| {
            if let Op::ExpertLinear { parts, .. } = op {
                parts.iter_mut().for_each(|part| part.bias = None);
            }
        })
    });
    case.notices("bounded activation", |p| {
        each(p, |op| {
            if let Op::Activate { activation, .. } = op {
                *activation = Activation::Silu;
            }
        })
    });
}

#[test]
fn deepseek3_with_latent_attention_and_groups_of_experts() {
    let case = check("deepseek3");
    assert_eq!((case.program.caches[0].heads, case.program.caches[0].key_dim), (1, 32));
    for label in ["attn_q_a_norm", "attn_kv_a_norm", "rope_q", "rope_k", "ffn_shexp_add"] {
        case.notices(label, |p| without(p, label));
    }
    case.notices("pairing", |p| pair(p, Pairing::SplitHalf));
    case.notices("scale of a stretched context", |p| attention(p, |a| a.scale = 1.0 / 20f32.sqrt()));
    case.notices("magnitude", |p| p.ropes[0].magnitude = 1.1);
    case.notices("bias of the choice", |p| routing(p, |r| r.bias = None));
    case.notices("groups", |p| routing(p, |r| r.groups = None));
    case.notices("scale of weights", |p| routing(p, |r| r.scale = 1.0));
}

#[test]
fn llama4_with_chunks_and_a_temperature() {
    let case = check("llama4");
    case.notices("chunks", |p| attention(p, |a| a.chunk = a.chunk.map(|chunk| chunk + 1)));
    case.notices("chunks are no windows", |p| attention(p, |a| a.window = a.chunk.take()));
    case.notices("pairing", |p| pair(p, Pairing::SplitHalf));
    case.notices("temperature", |p| p.ropes[1].temperature = None);
    case.notices("its offset", |p| {
        p.ropes[1].temperature = p.ropes[1].temperature.map(|by| Temperature { offset: 0, ..by });
    });
    case.notices("epsilon of norms without factors", |p| {
        each(p, |op| {
            if let Op::UnitNorm { epsilon, .. } = op {
                *epsilon = 0.0;
            }
        })
    });
    for label in ["attn_q_norm", "attn_k_norm", "ffn_shexp_add"] {
        case.notices(label, |p| without(p, label));
    }
}
