//! The commands and the engine on a GPU: whichever comes first, which is Mesa's software one where there is
//! no other.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gleed_engine::{
    BatchSettings, Batcher, Engine, Event, FinishReason, GenerationSettings, Request, SamplerSettings,
    Speculation, TokenizerText,
};
use gleed_gguf::Gguf;
use gleed_gpu::GpuExecutor;
use gleed_model::chain::Chain;
use gleed_model::executor::Observer;
use gleed_model::fuse::{Rules, fuse};
use gleed_model::groups::PageGroup;
use gleed_model::{Batch, Executor, Model, Program, StepError};
use gleed_tokenizer::Tokenizer;

use crate::commands::{continues, gleed, json, refused};
use crate::data::device;
use gleed_testing::golden::{root, test_data};
use gleed_testing::{Ear, Heard};

#[test]
fn a_gpu_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--device", "0"]);
    continues("tiny-qwen3", &["--device", "0", "--kv", "f32"]);
}

#[test]
fn a_split_model_continues_as_llama_cpp_does() {
    continues("tiny-llama3", &["--device", "0", "--gpu-layers", "1"]);
    continues("tiny-qwen3", &["--device", "0", "--gpu-layers", "1", "--kv", "f32"]);
}

/// What greedy choices make of a beginning.
fn story(options: &[&str]) -> Vec<u8> {
    let output = gleed(&[&["run", "Once upon a time", "--temperature", "0", "-n", "12"], options].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn a_gpu_tells_the_same_story() {
    assert_eq!(story(&["--device", "0"]), story(&["--device", "cpu", "--arithmetic", "f32"]));
}

#[test]
fn any_number_of_layers_on_the_gpu_tells_the_same_story() {
    let truth = story(&["--device", "cpu", "--arithmetic", "f32"]);
    for layers in ["1", "5", "6", "99"] {
        assert_eq!(
            story(&["--device", "0", "--gpu-layers", layers, "--arithmetic", "f32"]),
            truth,
            "{layers}"
        );
    }
    // None at all is the CPU, whatever the device.
    let cpu = story(&["--device", "cpu"]);
    for device in ["0", "cpu", "auto"] {
        assert_eq!(story(&["--device", device, "--gpu-layers", "0"]), cpu, "{device}");
    }
}

#[test]
fn a_split_model_is_measured_and_validated() {
    let split = ["--device", "0", "--gpu-layers", "2", "--json"];
    let measured = json(&[&["bench", "stories15M", "-p", "5", "-n", "2", "-r", "1"], &split[..]].concat());
    let device = measured["device"].as_str().unwrap();
    assert!(device.starts_with("4 of 6 layers on ") && device.contains("2 and the head on "), "{device}");
    assert_eq!(measured["arithmetic"], "q8");
    for check in [&[][..], &["--ops"], &["--against-rows"]] {
        let checked =
            json(&[&["validate", "stories15M", "--prompt", "Once upon a time"], check, &split].concat());
        assert_eq!(checked["passed"], true, "{check:?}");
    }
}

/// Threads are a CPU's: where a GPU computes everything, their number is not checked, and no run is on the CPU.
#[test]
fn every_run_of_a_check_is_on_one_device() {
    let check = |options: &[&str]| {
        let arguments =
            ["validate", "stories15M", "--prompt", "Once upon a time", "--against-rows", "--json"];
        let report = json(&[&arguments[..], options].concat());
        assert_eq!(report["passed"], true, "{report}");
        let computed_in = report["checks"].as_array().unwrap().iter().map(|check| &check["computed_in"]);
        computed_in.filter(|name| name.as_str().is_some_and(|name| name.contains("thread"))).count()
    };
    assert_eq!(check(&["--device", "0"]), 0);
    assert_eq!(check(&["--device", "0", "--gpu-layers", "2"]), 1);
    assert_eq!(check(&["--device", "cpu", "--threads", "1"]), 1);
}

#[test]
fn devices_are_listed() {
    let devices = json(&["devices", "--json"]);
    let first = &devices["devices"][0];
    assert!(first["name"].as_str().is_some_and(|name| !name.is_empty()), "{devices}");
    assert!(first["largest_binding_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{devices}");
}

/// A GPU's kernels are named where it computes, and the CPU's for the layers that stay there.
#[test]
fn kernels_are_those_of_the_device() {
    let kernels = |options: &[&str]| -> Vec<String> {
        let file = json(&[&["inspect", "stories15M", "--tensors", "--json"], options].concat());
        let matrices = file["tensors"].as_array().unwrap().iter().filter(|tensor| {
            tensor["name"].as_str().is_some_and(|name| name.contains("ffn_down") || name.contains("attn_q"))
        });
        matrices.map(|tensor| tensor["kernel"].as_str().unwrap().to_string()).collect()
    };
    let (cpu, gpu) = (kernels(&["--device", "cpu"]), kernels(&["--device", "0"]));
    assert_eq!((cpu.len(), gpu.len()), (12, 12));
    assert!(gpu.iter().all(|kernel| kernel.starts_with("int8: few 1x1, ")), "{gpu:?}");
    assert!(cpu.iter().all(|kernel| !gpu.contains(kernel)), "{cpu:?}");
    let split = kernels(&["--device", "0", "--gpu-layers", "2"]);
    assert_eq!(split.iter().filter(|kernel| gpu.contains(kernel)).count(), 4);
    assert_eq!(split.iter().filter(|kernel| cpu.contains(kernel)).count(), 8);
    let floats = kernels(&["--device", "0", "--arithmetic", "f32"]);
    assert!(floats.iter().all(|kernel| kernel.starts_with("f32: few 1x1, ")), "{floats:?}");
}

#[test]
fn drivers_say_nothing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gleed"));
    let output = command.args(["devices", "--json"]).env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn wishes_that_no_gpu_fulfils_are_refused() {
    refused(&["run", "Hi", "--device", "cpu", "--arithmetic", "f16"], "the CPU has no arithmetic in f16");
    refused(&["run", "Hi", "--device", "cpu", "--gpu-layers", "3"], "--gpu-layers 3 is for a GPU");
    refused(&["run", "Hi", "--device", "a card from 2050"], "a card from 2050");
}

/// A GPU that counts its steps but for those of chains, which it has or keeps to itself.
struct Watched {
    gpu: GpuExecutor,
    chains: bool,
    steps: Arc<AtomicUsize>,
}

impl Executor for Watched {
    fn program(&self) -> &Program {
        self.gpu.program()
    }

    fn max_rows(&self) -> usize {
        self.gpu.max_rows()
    }

    fn page_groups(&self) -> &[PageGroup] {
        self.gpu.page_groups()
    }

    fn step(&mut self, batch: &Batch, observer: &mut dyn Observer) -> Result<(), StepError> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.gpu.step(batch, observer)
    }

    fn logits(&self, index: usize) -> &[f32] {
        self.gpu.logits(index)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) {
        self.gpu.copy_page(group, from, to);
    }

    fn chain(&mut self) -> Option<&mut dyn Chain> {
        if self.chains { self.gpu.chain() } else { None }
    }
}

/// The story model on a GPU, and how many steps it takes without a chain.
fn watched(chains: bool) -> (Engine, Arc<Tokenizer>, Arc<AtomicUsize>) {
    let file = Gguf::open(&root().join("models/stories15M-q8_0.gguf")).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let program = fuse(&Model::load(&file).unwrap().program, Rules::ALL);
    let options = gleed_gpu::Options { max_rows: 64, pages: 4, ..Default::default() };
    let (gpu, steps) = (GpuExecutor::new(device(), &file, program, options).unwrap(), Arc::default());
    (Engine::new(Box::new(Watched { gpu, chains, steps: Arc::clone(&steps) })), Arc::new(tokenizer), steps)
}

/// The token of an event.
fn token(event: &Event) -> Option<u32> {
    match event {
        Event::Token(token) => Some(token.id),
        Event::Rest(_) => None,
    }
}

/// Three turns of a conversation; what is seen of them, and one more token with its probability.
fn conversation(chains: bool, sampler: &SamplerSettings) -> Vec<(Vec<Event>, FinishReason)> {
    let (engine, tokenizer, steps) = watched(chains);
    let batching = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
    let mut batcher = Batcher::new(engine, &batching);
    let (mut prompt, mut turns) = (tokenizer.encode_prompt("Once upon a time", true, true), vec![]);
    for stop in ["girl", "no such word", ".", ""] {
        let settings = GenerationSettings {
            max_tokens: Some(if stop.is_empty() { 1 } else { 12 }),
            stop: if stop.is_empty() { vec![] } else { vec![stop.to_string()] },
            sampler: sampler.clone(),
            logprobs: stop.is_empty().then_some(5),
            ..Default::default()
        };
        let (mut events, text) = (vec![], TokenizerText::new(tokenizer.clone()));
        let finish = batcher.answer(&prompt, settings, text, &Arc::default(), |event| events.push(event));
        prompt.extend(events.iter().filter_map(token));
        turns.push((events, finish.unwrap().reason));
        prompt.extend(tokenizer.encode_prompt(" Then", false, false));
    }
    // The prompts' steps; all others are the chains'.
    let steps = steps.load(Ordering::Relaxed);
    assert_eq!(steps == turns.len(), chains, "{steps} steps");
    turns
}

#[test]
fn decoding_ahead_changes_nothing() {
    // The device draws what the host would draw.
    let drawn = SamplerSettings { seed: Some(5), temperature: 1.2, min_p: 0.01, ..Default::default() };
    let ahead = conversation(true, &drawn);
    assert_eq!(ahead, conversation(false, &drawn));
    let (drawn, greedy) = (ahead, SamplerSettings::greedy());
    let ahead = conversation(true, &greedy);
    assert_ne!(ahead, drawn);
    assert_eq!(ahead, conversation(false, &greedy));
    assert!(ahead.iter().any(|(_, reason)| matches!(reason, FinishReason::StopString(_))), "{ahead:?}");
    assert!(ahead.iter().any(|(_, reason)| *reason == FinishReason::Length), "{ahead:?}");
}

/// The answers to some requests that come two steps apart.
fn answers(chains: bool) -> Vec<Heard> {
    let (engine, tokenizer, plain_steps) = watched(chains);
    let settings = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
    let (mut batcher, mut ears) = (Batcher::new(engine, &settings), vec![]);
    for (seed, prompt) in ["Once upon a time", "Tim and Sue", "Once upon a hill"].into_iter().enumerate() {
        let ear = Ear::default();
        let sampler = SamplerSettings { seed: Some(seed as u64), ..Default::default() };
        let sampler = if seed == 0 { SamplerSettings::greedy() } else { sampler };
        let request = Request {
            prompt: tokenizer.encode_prompt(prompt, true, true),
            settings: GenerationSettings { max_tokens: Some(6 + 3 * seed), sampler, ..Default::default() },
            text: Box::new(TokenizerText::new(tokenizer.clone())),
            constraint: None,
            adapters: Default::default(),
            uses_cache: true,
            deadline: None,
            listener: Box::new(ear.clone()),
        };
        batcher.submit(request).unwrap();
        (0..2).for_each(|_| batcher.step(&|| true).unwrap());
        ears.push(ear);
    }
    while !batcher.is_idle() {
        batcher.step(&|| false).unwrap();
    }
    let (plain, steps) = (plain_steps.load(Ordering::Relaxed), batcher.status().steps as usize);
    assert!(
        if chains { plain < steps / 2 } else { plain == steps },
        "{plain} of {steps} steps without chains"
    );
    ears.iter().map(Ear::heard).collect()
}

#[test]
fn a_device_chooses_for_many_what_the_host_would_choose() {
    let ahead = answers(true);
    assert!(ahead.iter().all(|heard| heard.finish == Some(FinishReason::Length)), "{ahead:?}");
    assert_eq!(ahead, answers(false));
}

/// Turns with rewinding and a fork, greedily and ahead; all tokens, those that matter with their probabilities.
fn windowed_turns(window_sequences: Option<usize>) -> (Vec<Event>, usize) {
    let file = Gguf::open(&test_data("tiny/tiny-gemma3.F32.gguf")).unwrap();
    let tokenizer = Tokenizer::from_metadata(file.metadata()).unwrap();
    let program = fuse(&Model::load(&file).unwrap().program, Rules::ALL);
    let options = gleed_gpu::Options { max_rows: 64, pages: 16, window_sequences, ..Default::default() };
    let engine = Engine::new(Box::new(GpuExecutor::new(device(), &file, program, options).unwrap()));
    let batching = BatchSettings { speculation: Speculation::Off, ..BatchSettings::default() };
    let (mut batcher, tokenizer) = (Batcher::new(engine, &batching), Arc::new(tokenizer));
    let pools = batcher.engine().page_pools().to_vec();
    let mut answer = |prompt: &[u32], max_tokens: usize, logprobs: Option<usize>| {
        let settings = GenerationSettings {
            max_tokens: Some(max_tokens),
            ignore_eos: true,
            sampler: SamplerSettings::greedy(),
            logprobs,
            ..Default::default()
        };
        let (text, mut events) = (TokenizerText::new(tokenizer.clone()), vec![]);
        batcher.answer(prompt, settings, text, &Arc::default(), |event| events.push(event)).unwrap();
        events
    };
    let mut prompt: Vec<u32> = (0..150).map(|i| 3 + i * 7 % 200).collect();
    let mut all = vec![];
    for back in [3, 40, 190] {
        let events = answer(&prompt, 60, None);
        prompt.extend(events.iter().filter_map(token));
        all.extend(events);
        // Another goes on in the open page; both hold what the window has not left.
        prompt.pop();
        all.extend(answer(&[&prompt[..], &[9]].concat(), 1, Some(20)));
        prompt.truncate(prompt.len() - back);
        prompt.extend([11, 12, 13]);
    }
    all.extend(answer(&prompt, 1, Some(20)));
    drop(batcher);
    assert!(pools.iter().all(|pool| pool.free() == pool.total()), "{pools:?}");
    (all, pools[1].total())
}

#[test]
fn pages_that_windows_have_left_are_given_back() {
    let (all, pages) = windowed_turns(None);
    assert_eq!(pages, 16);
    let (given_back, fewer) = windowed_turns(Some(1));
    // A window of 32, a step of 64 and a page's length more; the same without the step; one to copy.
    assert_eq!(fewer, 4 + 3 + 1);
    assert_eq!(all, given_back);
}

#[test]
fn ops_are_held_against_the_limits_of_the_gpu() {
    let arguments =
        ["bench", "stories15M", "--device", "0", "-p", "24", "-n", "3", "-r", "1", "--ops", "--json"];
    let report = json(&arguments);
    for limit in ["memory", "f32", "int8"] {
        assert!(report["limits"][limit].as_f64().is_some_and(|limit| limit > 1e6), "{report}");
    }
    let profiles = report["ops"].as_array().unwrap();
    assert_eq!(profiles.len(), 2);
    for profile in profiles {
        for op in profile["ops"].as_array().unwrap() {
            let number = |name: &str| op[name].as_f64().unwrap_or_else(|| panic!("{name} of {op}"));
            assert!(number("seconds") > 0.0 && number("activation_bytes") > 0.0, "{op}");
            let linear = number("weight_bytes") > 0.0;
            assert_eq!(linear, op["kind"].as_str().unwrap().contains("linear"), "{op}");
            assert!(!linear || number("int8_operations") > 0.0, "{op}");
            // A second kernel cannot read or compute faster than those that do nothing else; caches can help
            // a small model.
            assert!((0.0..20.0).contains(&number("share_of_limit")), "{op}");
        }
    }
    for result in report["results"].as_array().unwrap() {
        assert!(result["share_of_limit"].as_f64().is_some_and(|share| share > 0.0), "{result}");
    }
}
