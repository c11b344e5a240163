//! Perplexity against its definition, on the mock executor.

use gleed_engine::sampler::Random;
use gleed_engine::{Engine, Error, PerplexitySettings, perplexity};
use gleed_testing::Mock;

const VOCABULARY: usize = 50;

fn engine(max_rows: usize) -> Engine {
    Engine::new(Box::new(Mock::new(VOCABULARY, 300, max_rows, 5)))
}

/// The negative log-likelihood of the token after `text`, in f64.
fn nll(text: &[u32], next: u32) -> f64 {
    let logits: Vec<f64> = Mock::expected(text, VOCABULARY).iter().map(|&x| f64::from(x)).collect();
    let sum: f64 = logits.iter().map(|x| x.exp()).sum();
    sum.ln() - logits[next as usize]
}

#[test]
fn matches_the_definition() {
    let mut random = Random::new(8);
    let tokens: Vec<u32> = (0..700).map(|_| random.below(VOCABULARY as u64) as u32).collect();
    for (context, chunks, bos) in [
        (3, Some(2), None),
        (64, None, Some(7)),
        (65, Some(4), None),
        (100, None, None),
        (300, None, Some(1)),
    ] {
        let mut scored = vec![];
        for window in tokens.chunks_exact(context).take(chunks.unwrap_or(usize::MAX)) {
            let mut window = window.to_vec();
            window[0] = bos.unwrap_or(window[0]);
            for position in context / 2..=context - 2 {
                scored.push(nll(&window[..=position], window[position + 1]));
            }
        }
        let n = scored.len() as f64;
        let mean = scored.iter().sum::<f64>() / n;
        let variance = scored.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        for max_rows in [1, 7, 64, 512] {
            let mut engine = engine(max_rows);
            let mut calls = 0;
            let settings = PerplexitySettings { context, chunks, bos };
            let result = perplexity(&mut engine, &tokens, settings, |_| calls += 1).unwrap();
            assert_eq!((result.count, result.chunk, result.chunks), (scored.len(), calls, calls));
            assert!((result.nll - mean).abs() < 1e-6, "{} {mean}", result.nll);
            assert!((result.value / mean.exp() - 1.0).abs() < 1e-6);
            assert!((result.error / (mean.exp() * (variance / (n - 1.0)).sqrt()) - 1.0).abs() < 1e-5);
            assert_eq!(engine.pages().free(), 5, "pages are given back");
        }
    }
}

#[test]
fn refuses_what_cannot_be_scored() {
    let run = |context, tokens: &[u32]| {
        let settings = PerplexitySettings { context, chunks: None, bos: None };
        perplexity(&mut engine(64), tokens, settings, |_| {})
    };
    assert_eq!(run(2, &[1; 50]), Err(Error::Window { window: 2, context: 300 }));
    assert_eq!(run(301, &[1; 500]), Err(Error::Window { window: 301, context: 300 }));
    assert_eq!(run(64, &[1; 63]), Err(Error::TextTooShort { tokens: 63, window: 64 }));
    assert!(matches!(run(4, &[1, 1, 1, 50]), Ok(p) if p.value.is_infinite()), "an impossible token");
}
