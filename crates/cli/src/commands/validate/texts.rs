//! Embedding models: the vectors of some texts against the reference, or, with `--against-rows`, their
//! bits alone, together, in another order and with other threads.

use anyhow::Result;
use gleed_engine::{Engine, normalize};
use gleed_model::arithmetic::{PAGE, dot};
use gleed_model::compare::Difference;
use gleed_model::{Arithmetic, KvType, Reference};
use serde_json::json;

use super::{Arguments, reference_options, tokens, verdict};
use crate::load::{Loaded, Options};
use crate::output;

/// Tokens of the texts that the default one is cut into: one, some, and more than pages.
const LENGTHS: [usize; 5] = [1, 7, 40, 72, 150];

/// Runs the check.
pub fn run(arguments: &Arguments, loaded: &Loaded) -> Result<()> {
    let all = tokens(loaded, arguments.prompt.as_deref())?;
    let mut texts = Vec::new();
    let mut rest = &all[..];
    for length in LENGTHS {
        let (text, more) = rest.split_at(length.min(rest.len()));
        texts.extend(Some(text).filter(|text| !text.is_empty()));
        rest = more;
    }
    if arguments.against_rows {
        against_company(arguments, loaded, &texts)
    } else {
        against_reference(arguments, loaded, &texts)
    }
}

/// An engine with room for some texts in one step.
fn engine(loaded: &Loaded, options: &Options, texts: &[&[u32]]) -> Result<(Engine, Arithmetic)> {
    let rows = texts.iter().map(|text| text.len()).sum();
    let pages: usize = texts.iter().map(|text| text.len().div_ceil(PAGE)).sum();
    let executor = loaded.executor(options, pages * PAGE, rows)?;
    let arithmetic = executor.arithmetic();
    Ok((Engine::new(Box::new(executor)), arithmetic))
}

fn against_reference(arguments: &Arguments, loaded: &Loaded, texts: &[&[u32]]) -> Result<()> {
    let longest = texts.iter().map(|text| text.len()).max().unwrap_or(1);
    let made_for = reference_options(Arithmetic::F32, KvType::F32, longest);
    let reference = Reference::new(loaded.file.clone(), loaded.model.program.clone(), made_for)?;
    let mut truth = Engine::new(Box::new(reference)).embed(texts)?;
    let (mut engine, arithmetic) = engine(loaded, &arguments.options, texts)?;
    let mut found = engine.embed(texts)?;
    let difference = Difference::of(&found.concat(), &truth.concat());
    let mut farthest = 0.0f32;
    for (found, truth) in found.iter_mut().zip(&mut truth) {
        normalize(found);
        normalize(truth);
        // NaN must not pass.
        let distance = 1.0 - dot(found, truth);
        farthest = if distance.is_nan() { f32::NAN } else { farthest.max(distance) };
    }
    let tolerance = arguments.tolerance.unwrap_or(match arithmetic {
        Arithmetic::Q8 => 0.01,
        Arithmetic::F32 => 1e-5,
        Arithmetic::F16 => 1e-4,
    });
    let passed = f64::from(farthest) <= tolerance;
    if arguments.json {
        output::print_json(&json!({
            "model": loaded.name,
            "texts": texts.len(),
            "difference": super::difference(&difference),
            "cosine_distance": farthest,
            "tolerance": tolerance,
            "passed": passed,
        }))?;
    } else {
        output::print_line(format!(
            "{} texts: the vectors' values differ by up to {:.3e}, their directions by a cosine of 1 - {farthest:.1e}",
            texts.len(),
            difference.absolute
        ))?;
    }
    verdict(passed, arguments.json, || format!("a cosine distance of {farthest} is above {tolerance}"))
}

fn against_company(arguments: &Arguments, loaded: &Loaded, texts: &[&[u32]]) -> Result<()> {
    let (mut first, _) = engine(loaded, &arguments.options, texts)?;
    let alone: Vec<Vec<f32>> =
        texts.iter().map(|text| Ok(first.embed(&[text])?.remove(0))).collect::<Result<_>>()?;
    let mut checks = vec![("together", first.embed(texts)?)];
    let backwards: Vec<&[u32]> = texts.iter().rev().copied().collect();
    let mut reversed = first.embed(&backwards)?;
    reversed.reverse();
    checks.push(("together, backwards", reversed));
    drop(first);
    if arguments.options.threads != Some(1) && matches!(arguments.options.device, crate::device::Device::Cpu)
    {
        let one = Options { threads: Some(1), ..arguments.options.clone() };
        checks.push(("with one thread", engine(loaded, &one, texts)?.0.embed(texts)?));
    }
    let bits = |vectors: &[Vec<f32>]| -> Vec<Vec<u32>> {
        vectors.iter().map(|vector| vector.iter().map(|x| x.to_bits()).collect()).collect()
    };
    let truth = bits(&alone);
    let differ: Vec<(&str, usize)> = checks
        .iter()
        .map(|(name, vectors)| (*name, bits(vectors).iter().zip(&truth).filter(|(a, b)| a != b).count()))
        .collect();
    let wrong: usize = differ.iter().map(|(_, count)| count).sum();
    if arguments.json {
        let check = |(name, count): &(&str, usize)| json!({ "computed": name, "differ": count });
        output::print_json(&json!({
            "model": loaded.name,
            "texts": texts.len(),
            "checks": differ.iter().map(check).collect::<Vec<_>>(),
            "passed": wrong == 0,
        }))?;
    } else {
        for (name, count) in &differ {
            output::print_line(format!("{} texts {name}: {count} have other bits than alone", texts.len()))?;
        }
    }
    verdict(wrong == 0, arguments.json, || format!("{wrong} vectors depend on their company"))
}
