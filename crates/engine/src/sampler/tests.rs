//! The sampler against a slow reference: a full sort and f64 probabilities, written from the definitions.

use super::*;

const MASKED: f32 = f32::NEG_INFINITY;

/// What the reference says: the tokens that may be drawn and their probabilities, ascending by token.
type Distribution = Vec<(u32, f64)>;

/// The definitions, step by step. `slack` moves every border a little, to find cases that rounding decides.
fn reference(logits: &[f32], s: &SamplerSettings, history: &[u32], slack: f64) -> Distribution {
    let mut scores = logits.to_vec();
    for &(token, bias) in &s.logit_bias {
        scores[token as usize] += bias;
    }
    let recent = &history[history.len().saturating_sub(s.repeat_last_n)..];
    for (score, token) in scores.iter_mut().zip(0u32..) {
        let count = recent.iter().filter(|&&t| t == token).count();
        if count > 0 {
            let x = if *score > 0.0 { *score / s.repeat_penalty } else { *score * s.repeat_penalty };
            *score = x - (s.frequency_penalty * count as f32 + s.presence_penalty);
        }
    }
    let mut left: Vec<(u32, f64)> = scores
        .iter()
        .zip(0u32..)
        .filter(|(x, _)| !x.is_nan() && **x != MASKED)
        .map(|(&x, token)| (token, f64::from(x)))
        .collect();
    left.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));

    // Penalties can push everything to negative infinity; `masked_rows_are_handled` tests what follows.
    let Some(&(_, top)) = left.first() else { return vec![] };
    let relative = |x: f64| if x == top { 0.0 } else { x - top };
    if s.min_p > 0.0 {
        left.retain(|c| relative(c.1).exp() >= f64::from(s.min_p) * (1.0 + slack));
    }
    if s.top_k > 0 {
        left.truncate(s.top_k);
    }
    if s.typical_p < 1.0 {
        let p = softmax(&left, 1.0);
        let entropy: f64 = p.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum();
        // The slack reorders those whose distances are nearly the same.
        let far = |i: usize| ((-p[i].ln() - entropy).abs() * 1e6 + slack * 1e6 * i as f64).round();
        let mut order: Vec<usize> = (0..left.len()).collect();
        order.sort_by(|&a, &b| far(a).partial_cmp(&far(b)).unwrap().then(a.cmp(&b)));
        let kept = prefix(order.iter().map(|&i| p[i]), f64::from(s.typical_p) + slack);
        order.truncate(kept);
        order.sort_unstable();
        left = order.into_iter().map(|i| left[i]).collect();
    }
    if s.top_p < 1.0 {
        let p = softmax(&left, 1.0);
        left.truncate(prefix(p.into_iter(), f64::from(s.top_p) + slack));
    }
    let p = softmax(&left, f64::from(s.temperature));
    let mut result: Distribution = left.iter().zip(p).map(|(c, p)| (c.0, p)).collect();
    result.sort_unstable_by_key(|c| c.0);
    result
}

/// How many of these it takes to reach `target`.
fn prefix(p: impl Iterator<Item = f64>, target: f64) -> usize {
    let mut sum = 0.0;
    let mut count = 0;
    for p in p {
        count += 1;
        sum += p;
        if sum >= target {
            break;
        }
    }
    count
}

fn softmax(list: &[(u32, f64)], temperature: f64) -> Vec<f64> {
    let max = list.iter().map(|c| c.1).fold(f64::MIN, f64::max);
    let e: Vec<f64> =
        list.iter().map(|c| if c.1 == max { 1.0 } else { ((c.1 - max) / temperature).exp() }).collect();
    let sum: f64 = e.iter().sum();
    e.into_iter().map(|e| e / sum).collect()
}

fn plain() -> SamplerSettings {
    SamplerSettings { seed: Some(1), ..SamplerSettings::plain() }
}

fn unit(random: &mut Random) -> f32 {
    (random.next_u64() >> 40) as f32 / (1u64 << 24) as f32
}

/// Logits of all kinds: smooth, tied, masked, huge, not numbers; at least one that is a number.
fn random_logits(random: &mut Random) -> Vec<f32> {
    let most = if random.below(4) == 0 { 1000 } else { 40 };
    let n = 1 + random.below(most) as usize;
    let kind = random.below(6);
    let mut logits: Vec<f32> = (0..n)
        .map(|_| match kind {
            0 => unit(random) * 20.0 - 10.0,
            1 => random.below(5) as f32,
            2 => (unit(random) - 0.5) * 1e38,
            3 => (0..6).map(|_| unit(random)).sum::<f32>() * 3.0,
            4 => unit(random).ln() * 4.0,
            _ => 1.5,
        })
        .collect();
    for x in &mut logits {
        match random.below(24) {
            0 => *x = MASKED,
            1 => *x = f32::NAN,
            2 if kind == 1 => *x = f32::INFINITY,
            3 if kind == 2 => *x = f32::MAX,
            4 if kind == 2 => *x = f32::MIN,
            _ => {}
        }
    }
    if logits.iter().all(|x| x.is_nan() || *x == MASKED) {
        logits[0] = 0.5;
    }
    logits
}

#[test]
fn draws_are_those_of_the_plain_definition() {
    let mut random = Random::new(3);
    for case in 0..400 {
        let count = 1 + random.below(5000);
        let mut logits: Vec<f32> = (0..count).map(|_| unit(&mut random) * 12.0).collect();
        logits[random.below(count) as usize] = [f32::NAN, MASKED, 3.0][case % 3];
        let settings = SamplerSettings {
            temperature: 0.2 + unit(&mut random),
            top_k: if case % 5 == 0 { 1 + random.below(60) as usize } else { 0 },
            top_p: if case % 2 == 0 { unit(&mut random) } else { 1.0 },
            min_p: if case % 7 == 0 { unit(&mut random).powi(4) } else { 0.0 },
            seed: Some(random.next_u64()),
            ..plain()
        };
        let mut sampler = Sampler::new(settings, logits.len()).unwrap();
        let (rule, mut bits) = (sampler.rule().unwrap(), sampler.clone());
        for _ in 0..5 {
            let token = choice::choose(&logits, &rule, bits.random_bits());
            match sampler.choose(&logits, None) {
                Ok(chosen) => assert_eq!(chosen, token, "{rule:?}"),
                Err(_) => assert_eq!(token, choice::NO_TOKEN),
            }
        }
    }
}

#[test]
fn keeps_the_same_tokens_as_a_full_sort() {
    let mut random = Random::new(11);
    let (mut compared, mut undecided, mut thinned) = (0, 0, 0);
    for case in 0..6000 {
        let logits = random_logits(&mut random);
        // Each filter alone in turn, then all mixes.
        let on = |random: &mut Random, bit: u64| {
            let mask = if case % 3 == 0 { 1 << (case / 3 % 5) } else { random.next_u64() };
            mask >> bit & 1 == 1
        };
        let settings = SamplerSettings {
            top_k: if on(&mut random, 0) { 1 + random.below(40).pow(2) as usize / 10 } else { 0 },
            top_p: if on(&mut random, 1) { unit(&mut random) } else { 1.0 },
            min_p: if on(&mut random, 2) { unit(&mut random).powi(3) } else { 0.0 },
            typical_p: if on(&mut random, 3) { unit(&mut random) } else { 1.0 },
            repeat_penalty: if on(&mut random, 4) { 0.5 + unit(&mut random) } else { 1.0 },
            frequency_penalty: if on(&mut random, 4) { unit(&mut random) - 0.3 } else { 0.0 },
            presence_penalty: if on(&mut random, 4) { unit(&mut random) - 0.3 } else { 0.0 },
            repeat_last_n: random.below(12) as usize,
            logit_bias: vec![(random.below(logits.len() as u64) as u32, unit(&mut random) * 8.0 - 4.0)],
            ..plain()
        };
        let history: Vec<u32> =
            (0..random.below(30)).map(|_| random.below(logits.len() as u64) as u32).collect();
        let (less, more) =
            (reference(&logits, &settings, &history, -1e-6), reference(&logits, &settings, &history, 1e-6));
        let tokens = |d: &Distribution| d.iter().map(|c| c.0).collect::<Vec<_>>();
        if less.is_empty() || tokens(&less) != tokens(&more) {
            undecided += 1;
            continue;
        }
        let mut sampler = Sampler::new(settings.clone(), logits.len()).unwrap();
        history.iter().for_each(|&t| sampler.accept(t));
        assert_eq!(sampler.narrow(&logits, None), Ok(None));
        assert_eq!(sampler.candidates.tokens(), tokens(&less), "{settings:?} {history:?} {logits:?}");
        compared += 1;
        thinned += usize::from(less.len() < logits.len());
    }
    assert!(
        compared > 5000 && thinned > 4000,
        "{compared} compared, {undecided} undecided, {thinned} thinned"
    );
}

#[test]
fn borders_inside_ties_take_the_lower_tokens() {
    let logits = [2.0, 5.0, 5.0, 5.0, 5.0, 2.0];
    let kept = |settings: SamplerSettings| {
        let mut sampler = Sampler::new(settings, logits.len()).unwrap();
        sampler.narrow(&logits, None).unwrap();
        sampler.candidates.tokens()
    };
    assert_eq!(kept(SamplerSettings { top_k: 2, ..plain() }), [1, 2]);
    assert_eq!(kept(SamplerSettings { top_k: 5, ..plain() }), [0, 1, 2, 3, 4]);
    // Four equal tokens after min-p: half of the sum is exactly two of them.
    assert_eq!(kept(SamplerSettings { top_p: 0.5, min_p: 0.5, ..plain() }), [1, 2]);
    assert_eq!(kept(SamplerSettings { top_p: 0.51, min_p: 0.5, ..plain() }), [1, 2, 3]);
    assert_eq!(kept(SamplerSettings { top_p: 0.0, ..plain() }), [1]);
    assert_eq!(kept(SamplerSettings { typical_p: 0.0, min_p: 1.0, ..plain() }), [1]);
    assert_eq!(kept(SamplerSettings { min_p: 1.0, ..plain() }), [1, 2, 3, 4]);
}

#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> = (0..60).map(|i| ((i * 29) % 60) as f32 * 0.12 - 2.0).collect();
    let history = [3, 3, 17, 40, 3, 17, 59];
    let all = SamplerSettings {
        temperature: 1.3,
        top_k: 30,
        top_p: 0.9,
        min_p: 0.02,
        typical_p: 0.95,
        repeat_penalty: 1.2,
        frequency_penalty: 0.3,
        presence_penalty: 0.2,
        logit_bias: vec![(5, 2.0), (6, MASKED)],
        ..plain()
    };
    let cases = [
        plain(),
        SamplerSettings { temperature: 0.5, ..plain() },
        SamplerSettings { temperature: 2.5, ..plain() },
        SamplerSettings { top_k: 7, ..plain() },
        SamplerSettings { top_p: 0.7, ..plain() },
        SamplerSettings { min_p: 0.2, temperature: 1.7, ..plain() },
        SamplerSettings { typical_p: 0.6, ..plain() },
        SamplerSettings { repeat_penalty: 1.5, ..plain() },
        SamplerSettings { frequency_penalty: 0.7, presence_penalty: -0.5, ..plain() },
        SamplerSettings { logit_bias: vec![(1, 3.0), (2, -3.0)], ..plain() },
        SamplerSettings { seed: Some(3), ..SamplerSettings::default() },
        all,
    ];
    for settings in cases {
        let expected = reference(&logits, &settings, &history, 0.0);
        let mut sampler = Sampler::new(settings.clone(), logits.len()).unwrap();
        history.iter().for_each(|&t| sampler.accept(t));
        let draws = 60_000;
        let mut counts = vec![0u32; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(&logits, None).unwrap().token as usize] += 1;
        }
        // Rare tokens share one bin, so that every bin expects enough for the chi-square law.
        let (mut chi, mut bins, mut rare) = (0.0, 0, (0.0, 0.0));
        for &(token, p) in &expected {
            let (seen, wanted) = (f64::from(counts[token as usize]), p * f64::from(draws));
            if wanted < 10.0 {
                rare = (rare.0 + seen, rare.1 + wanted);
            } else {
                chi += (seen - wanted).powi(2) / wanted;
                bins += 1;
            }
            counts[token as usize] = 0;
        }
        if rare.1 >= 10.0 {
            chi += (rare.0 - rare.1).powi(2) / rare.1;
            bins += 1;
        }
        assert_eq!(counts.iter().sum::<u32>(), 0, "a token was drawn that is filtered out: {settings:?}");
        // Mean plus five standard deviations of the chi-square law.
        let freedom = f64::from(bins - 1);
        assert!(
            chi <= freedom + 5.0 * (2.0 * freedom).sqrt() + 1e-9,
            "chi-square {chi}, {bins} bins: {settings:?}"
        );
    }
}

#[test]
fn a_seed_means_these_draws() {
    let logits: Vec<f32> = (0..1000).map(|i| ((i * 389) % 1000) as f32 * 0.01).collect();
    let draws = |seed| {
        let mut sampler =
            Sampler::new(SamplerSettings { seed, temperature: 0.9, ..SamplerSettings::plain() }, 1000)
                .unwrap();
        (0..8).map(|_| sampler.sample(&logits, None).unwrap().token).collect::<Vec<_>>()
    };
    assert_eq!(draws(Some(42)), draws(Some(42)));
    assert_ne!(draws(Some(42)), draws(Some(43)));
    assert_ne!(draws(None), draws(None));
    // Written down so that a change of platform, compiler or code that moves the draws is seen.
    assert_eq!(draws(Some(42)), [843, 347, 982, 734, 824, 609, 154, 627]);
}

#[test]
fn a_fresh_seed_can_be_repeated() {
    let logits: Vec<f32> = (0..100).map(|i| (i % 7) as f32).collect();
    let settings = SamplerSettings { seed: None, ..plain() };
    let mut first = Sampler::new(settings.clone(), 100).unwrap();
    let mut again = Sampler::new(SamplerSettings { seed: Some(first.seed()), ..settings }, 100).unwrap();
    for _ in 0..50 {
        assert_eq!(first.sample(&logits, None), again.sample(&logits, None));
    }
}

#[test]
fn greedy_takes_the_first_best() {
    let mut sampler = Sampler::new(SamplerSettings::greedy(), 5).unwrap();
    assert_eq!(sampler.sample(&[1.0, 3.0, 2.0, 3.0, f32::NAN], None).unwrap().token, 1);
    assert_eq!(sampler.sample(&[MASKED, MASKED, -5.0, MASKED, f32::NAN], None).unwrap().token, 2);
    assert_eq!(sampler.sample(&[1.0, f32::INFINITY, 2.0, f32::INFINITY, 0.0], None).unwrap().token, 1);
}

#[test]
fn penalties_follow_their_formulas() {
    let settings = SamplerSettings {
        repeat_penalty: 2.0,
        frequency_penalty: 0.5,
        presence_penalty: 0.25,
        repeat_last_n: 3,
        ..SamplerSettings::greedy()
    };
    let mut sampler = Sampler::new(settings, 4).unwrap();
    // Token 0 leaves the window of three.
    for token in [0, 1, 2, 1] {
        sampler.accept(token);
    }
    sampler.narrow(&[4.0, 4.0, -4.0, 4.0], None).unwrap();
    assert_eq!(sampler.scores, [4.0, 4.0 / 2.0 - 2.0 * 0.5 - 0.25, -4.0 * 2.0 - 0.5 - 0.25, 4.0]);
    // Penalties change the choice but not the reported log-probability.
    let choice = sampler.sample(&[1.0, 1.5, 0.0, 0.0], None).unwrap();
    let sum: f64 = [1.0f64, 1.5, 0.0, 0.0].iter().map(|x| x.exp()).sum();
    assert_eq!(choice.token, 0);
    assert!((f64::from(choice.logprob) - (1.0 - sum.ln())).abs() < 1e-6);
}

#[test]
fn masked_rows_are_handled() {
    let nothing = [MASKED, f32::NAN, MASKED];
    for settings in [SamplerSettings::greedy(), SamplerSettings::default(), plain()] {
        let mut sampler = Sampler::new(settings.clone(), 3).unwrap();
        assert_eq!(sampler.sample(&nothing, None), Err(Error::NoCandidate));
        assert_eq!(sampler.top_logprobs(&nothing, 3), []);
        // One token left is always taken, with all the probability.
        assert_eq!(sampler.sample(&[MASKED, -1e30, f32::NAN], None), Ok(Choice { token: 1, logprob: 0.0 }));
        // Infinities share the probability.
        let choice = sampler.sample(&[f32::INFINITY, f32::MAX, f32::INFINITY], None).unwrap();
        assert!(choice.token != 1 && (choice.logprob + std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(sampler.sample(&[0.0], None), Err(Error::WrongLogits { logits: 1, vocabulary: 3 }));

        // The penalty overflows to negative infinity: the best logit is taken.
        let overflow = SamplerSettings { repeat_penalty: 10.0, ..settings.clone() };
        let mut sampler = Sampler::new(overflow, 3).unwrap();
        (0..3).for_each(|t| sampler.accept(t));
        assert_eq!(sampler.sample(&[-3.2e38, -3.1e38, f32::NAN], None).unwrap().token, 1);
        // All banned: the fallback does not take a banned token.
        let bias = vec![(0, MASKED), (1, MASKED)];
        let mut sampler = Sampler::new(SamplerSettings { logit_bias: bias, ..settings }, 3).unwrap();
        assert_eq!(sampler.sample(&[1.0, 2.0, MASKED], None), Err(Error::NoCandidate));
        assert_eq!(sampler.sample(&[1.0, 2.0, 0.0], None).unwrap().token, 2);
    }
}

#[test]
fn log_probabilities_match_a_plain_softmax() {
    let mut random = Random::new(5);
    for _ in 0..500 {
        let logits = random_logits(&mut random);
        let all: Vec<(u32, f64)> = logits
            .iter()
            .zip(0u32..)
            .filter(|(x, _)| !x.is_nan() && **x != MASKED)
            .map(|(&x, t)| (t, f64::from(x)))
            .collect();
        let p = softmax(&all, 1.0);
        let mut truth: Vec<(u32, f64, f64)> = all.iter().zip(p).map(|(c, p)| (c.0, c.1, p)).collect();
        truth.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        let n = random.below(30) as usize;
        let mut sampler = Sampler::new(plain(), logits.len()).unwrap();
        let choice = sampler.sample(&logits, None).unwrap();
        let top = sampler.top_logprobs(&logits, n);
        assert_eq!(top.len(), n.min(truth.len()));
        let close = |logprob: f32, p: f64| {
            assert!(!logprob.is_nan() && logprob <= 0.0);
            // Below the smallest f64 the reference has no logarithm to compare with.
            if p > 1e-300 {
                assert!((f64::from(logprob) - p.ln()).abs() < 2e-6 * (1.0 + p.ln().abs()), "{logprob} {p}");
            }
        };
        for (found, wanted) in top.iter().zip(&truth) {
            assert_eq!(found.token, wanted.0);
            close(found.logprob, wanted.2);
        }
        close(choice.logprob, truth.iter().find(|t| t.0 == choice.token).unwrap().2);
    }
}

#[test]
fn bad_settings_are_named() {
    let refused = |settings: SamplerSettings| match Sampler::new(settings, 10) {
        Err(Error::Setting { name, .. } | Error::UnknownToken { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    let d = SamplerSettings::default;
    for bad in [-0.1, f32::NAN, f32::INFINITY] {
        assert_eq!(refused(SamplerSettings { temperature: bad, ..d() }), "temperature");
        assert_eq!(refused(SamplerSettings { top_p: bad, ..d() }), "top_p");
        assert_eq!(refused(SamplerSettings { min_p: bad, ..d() }), "min_p");
        assert_eq!(refused(SamplerSettings { typical_p: bad, ..d() }), "typical_p");
        assert_eq!(refused(SamplerSettings { repeat_penalty: bad, ..d() }), "repeat_penalty");
    }
    assert_eq!(refused(SamplerSettings { repeat_penalty: 0.0, ..d() }), "repeat_penalty");
    assert_eq!(refused(SamplerSettings { top_p: 1.01, ..d() }), "top_p");
    assert_eq!(refused(SamplerSettings { frequency_penalty: f32::NAN, ..d() }), "frequency_penalty");
    assert_eq!(refused(SamplerSettings { presence_penalty: f32::INFINITY, ..d() }), "presence_penalty");
    assert_eq!(refused(SamplerSettings { logit_bias: vec![(10, 0.0)], ..d() }), "logit_bias");
    assert_eq!(refused(SamplerSettings { logit_bias: vec![(1, f32::NAN)], ..d() }), "logit_bias");
    let error = Sampler::new(SamplerSettings { top_p: 1.5, ..d() }, 10).unwrap_err();
    assert_eq!(error.to_string(), "top_p is 1.5, must be from 0 to 1");
}

#[test]
fn a_mask_leaves_only_what_it_allows() {
    let mut random = Random::new(17);
    for round in 0..200 {
        let logits: Vec<f32> = (0..50).map(|_| random.below(1000) as f32 / 100.0).collect();
        let mut mask = TokenMask::none(50);
        let allowed: Vec<u32> = (0..50).filter(|_| random.below(8) == 0).collect();
        allowed.iter().for_each(|&token| mask.allow(token));
        // A draw among the allowed ones is a draw from the logits in which the others are masked.
        let masked: Vec<f32> =
            (0u32..).zip(&logits).map(|(token, x)| if mask.allows(token) { *x } else { MASKED }).collect();
        let settings = match round % 3 {
            0 => SamplerSettings::greedy(),
            1 => SamplerSettings { seed: Some(round), ..SamplerSettings::plain() },
            _ => SamplerSettings { seed: Some(round), ..SamplerSettings::default() },
        };
        let mut samplers = [(); 2].map(|()| Sampler::new(settings.clone(), 50).unwrap());
        let truth = samplers[0].choose(&masked, None);
        assert_eq!(samplers[1].choose(&logits, Some(&mask)), truth);
        assert_eq!(truth.is_err(), allowed.is_empty());
        if let Ok(token) = truth {
            assert!(mask.allows(token));
            // The log-probability is that of the model, which knows no mask.
            let choice = samplers[1].sample(&logits, Some(&mask)).unwrap();
            let logprob = LogSoftmax::new(&logits).of(logits[choice.token as usize]) as f32;
            assert_eq!(choice.logprob, logprob);
        }
    }
}
