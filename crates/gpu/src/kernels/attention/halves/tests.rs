//! Every way to cut the work against the definition, and against each other bit for bit. On a device without matrix units
//! they are emulated.

mod case;

use gleed_model::arithmetic::{HALF_DIMENSIONS, PAGE};
use gleed_model::program::{self, KvLayer};
use half::f16;

use super::{Style, source};
use crate::kernels::List;
use crate::linear::half_units;
use crate::linear::tests::support::setup;
use crate::linear::tests::translation::translate_shared;
use crate::step::{Items, header};
use crate::units::fragments::Fragments;
use crate::units::spirv;

use case::{CUTS, Case, Cut, OUTLOOKS, ROW_WORDS, check, stages};

/// The kernels that devices with matrix units are given can be translated for them.
#[test]
fn every_kernel_is_completed() {
    let rooms = [Fragments::Lanes.room(48 << 10, 1024), Fragments::Shared(8).room(32 << 10, 1024)];
    let kinds = [Items::Near, Items::Whole, Items::Few, Items::Split, Items::Tiles];
    let all = |attention| program::Attention {
        window: Some(9),
        soft_cap: Some(1.0),
        alibi: Some(8.0),
        ..attention
    };
    let both_ways = |attention| program::Attention { causal: false, ..attention };
    for key_dim in [64, 40, 256, 576] {
        let case = || Case::new(KvLayer { heads: 2, key_dim, value_dim: 128 }, 3, 1, 1);
        let cases = [case(), case().with(all).with_sinks(), case().with(both_ways)];
        for (case, kind) in cases.iter().flat_map(|case| kinds.map(|kind| (case, kind))) {
            let (step, _) = case.step(kind, Cut::All);
            case.with_op(|op| {
                let [lanes, shared] = rooms.map(|room| {
                    let (source, _) = source(room, step, List::All, op, kind, Style::WrittenOut);
                    source.on_units().placed(header::words(OUTLOOKS), ROW_WORDS).finish().0
                });
                assert_eq!(
                    [&lanes, &shared].map(|text| stages(text)),
                    [kind == Items::Tiles && key_dim == 64, false]
                );
                assert_eq!(spirv::translate(&lanes).err(), None, "{kind:?}, {key_dim} dimensions");
                let bytes = translate_shared(&shared);
                assert!(key_dim < 576 || bytes <= 32 << 10, "{kind:?}: {bytes} bytes");
            });
        }
    }
}

/// Several rows at positions of two spans, heads that share keys, whole groups of dimensions.
#[test]
fn every_cut_gives_what_is_defined() {
    check(&Case::new(KvLayer { heads: 2, key_dim: 64, value_dim: 64 }, 3, PAGE - 2, 4));
}

/// Dimensions that are no whole groups, more spans than subgroups at once, a part of the queries of a tile.
#[test]
fn odd_sizes_give_what_is_defined() {
    check(&Case::new(KvLayer { heads: 1, key_dim: 40, value_dim: 72 }, 20, 3 * PAGE + 5, 3));
}

/// Windows that are smaller than a span, as large and larger, which begin within a span and at its border, and the
/// spans before which are not there.
#[test]
fn windows_give_what_is_defined() {
    let window = |size| move |attention| program::Attention { window: Some(size), ..attention };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(2, 64, 64), 3, 2 * PAGE - 2, 4).with(window(5)));
    check(&Case::new(shape(1, 40, 56), 5, 3 * PAGE - 1, 3).with(window(PAGE)).with_sinks());
    check(&Case::new(shape(1, 64, 64), 8, 5 * PAGE + 60, 8).with(window(128)).with_sinks());
    check(&Case::new(shape(1, 32, 32), 1, 7 * PAGE + 9, 1).with(window(1)));
    // Some rows of a tile begin a span later than others.
    check(&Case::new(shape(1, 32, 32), 2, 3 * PAGE - 4, 10).with(window(PAGE)));
}

#[test]
fn caps_and_sinks_give_what_is_defined() {
    let capped = |attention| program::Attention { soft_cap: Some(2.5), ..attention };
    let both = |attention| program::Attention { window: Some(100), soft_cap: Some(0.7), ..attention };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(1, 64, 64), 2, PAGE - 1, 2).with(capped));
    check(&Case::new(shape(2, 24, 40), 17, 2 * PAGE + 30, 2).with(both).with_sinks());
    check(&Case::new(shape(1, 64, 64), 8, 3 * PAGE - 3, 5).with_sinks());
}

#[test]
fn chunks_both_ways_and_fading_scores_give_what_is_defined() {
    let chunks = |attention| program::Attention { chunk: Some(70), window: Some(60), ..attention };
    let fading = |attention| program::Attention { alibi: Some(8.0), ..attention };
    let both_ways = |attention| program::Attention { causal: false, ..attention };
    let near = |attention| program::Attention { causal: false, window: Some(41), ..attention };
    let all = |attention| program::Attention { soft_cap: Some(3.0), ..near(fading(attention)) };
    let shape = |heads, key_dim, value_dim| KvLayer { heads, key_dim, value_dim };
    check(&Case::new(shape(1, 32, 32), 2, 2 * PAGE + 9, 6).with(chunks));
    check(&Case::new(shape(1, 48, 64), 3, PAGE + 3, 4).with(fading));
    check(&Case::new(shape(3, 32, 32), 1, 0, PAGE + 2).with(both_ways));
    check(&Case::new(shape(1, 40, 32), 2, 50, 30).with(near));
    check(&Case::new(shape(1, 32, 24), 6, 60, 9).with(all).with_sinks());
}

/// Whatever the shape, the options and where the rows are.
#[test]
fn random_shapes_and_options_give_what_is_defined() {
    let mut state = 77u32;
    let mut below = |end: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % end
    };
    // A software GPU is slow, and a thread there can emulate a limited number of products: see
    // `linear/tests/emulation.rs`.
    let (cases, most) = if half_units(&setup().0.info) { (16, [256, 256]) } else { (4, [70, 64]) };
    for _ in 0..cases {
        let (heads, key_dim, value_dim) = (1 + below(2), 1 + below(most[0]), 1 + below(most[1]));
        let (group, first, rows) = (1 + below(10), below(6 * PAGE), 1 + below(9));
        let window = (below(4) > 0).then(|| 1 + below(3 * PAGE));
        let chunk = (below(4) == 0).then(|| 1 + below(3 * PAGE));
        let soft_cap = (below(3) == 0).then(|| 0.5 + below(10) as f32);
        let alibi = (below(5) == 0).then_some(8.0);
        let options = |attention| program::Attention { window, chunk, soft_cap, alibi, ..attention };
        let case = Case::new(KvLayer { heads, key_dim, value_dim }, group, first, rows).with(options);
        check(&if below(2) == 0 { case.with_sinks() } else { case });
    }
}

/// A value that is not a number makes those rows so that see it, and no other.
#[test]
fn values_that_are_not_seen_do_not_count() {
    let (gpu, ..) = setup();
    // In tiles values come from workgroup memory, or from the cache.
    for (key_dim, wide) in [(32, false), (40, false), (40, true)] {
        let case = Case::new(KvLayer { heads: 1, key_dim, value_dim: 64 }, 1, 60, 3);
        let mut case = if wide { case.with_wide_kernels() } else { case };
        let last = 61 * 64;
        case.values[last + 5] = f16::INFINITY;
        for (what, kind, cut) in CUTS {
            let got = case.run(gpu, kind, cut);
            assert!(got[..64].iter().all(|x| x.is_finite()), "{what}: the row before sees it");
            assert!(!got[64 + 5].is_finite() && !got[128 + 5].is_finite(), "{what}: it is not seen");
        }
        // The window of the last row has left it.
        let case = case.with(|attention| program::Attention { window: Some(1), ..attention });
        for (what, kind, cut) in CUTS {
            let got = case.run(gpu, kind, cut);
            assert!(got[..64].iter().chain(&got[128..]).all(|x| x.is_finite()), "{what}: others see it");
            assert!(!got[64 + 5].is_finite(), "{what}: it is not seen");
        }
    }
}

/// Several rows for a team and two teams, more spans than a team has at once, two chunks of values for a subgroup, not all there.
#[test]
fn wide_kernels_give_what_is_defined() {
    let shape = KvLayer { heads: 1, key_dim: 72, value_dim: 296 };
    check(&Case::new(shape, 20, 3 * PAGE - 2, 5).with_wide_kernels());
}

/// Few queries, of two key heads, whose dimensions are no whole vectors.
#[test]
fn wide_kernels_with_options_give_what_is_defined() {
    let options = |attention| program::Attention {
        window: Some(100),
        soft_cap: Some(0.7),
        alibi: Some(8.0),
        ..attention
    };
    let shape = KvLayer { heads: 2, key_dim: 39, value_dim: 50 };
    check(&Case::new(shape, 3, 2 * PAGE + 30, 7).with(options).with_sinks().with_wide_kernels());
}

/// Dimensions as latent vectors have them.
#[test]
fn keys_of_many_dimensions_give_what_is_defined() {
    let on_units = half_units(&setup().0.info);
    let shape = |key_dim, value_dim| KvLayer { heads: 1, key_dim, value_dim };
    // More than a segment of linear layers, which scores know nothing of.
    check(&Case::new(shape(544, 256), 16, PAGE - 3, 5));
    if on_units {
        check(&Case::new(shape(576, 512), 16, 5 * PAGE - 3, 9));
        check(&Case::new(shape(576, 512), 128, 2 * PAGE + 7, 3));
        check(&Case::new(shape(520, 1100), 70, 3 * PAGE, 2));
    }
}

/// Workgroups with the memory that devices with units have at least have room for all that is said to be in halves.
#[test]
fn all_that_is_in_halves_has_room() {
    let of = |key_dim| KvLayer { heads: 1, key_dim, value_dim: 512 };
    for fragments in [Fragments::Lanes, Fragments::Shared(16), Fragments::Shared(8)] {
        assert!(
            (1..=HALF_DIMENSIONS).all(|key_dim| super::fits(fragments.room(32 << 10, 1024), of(key_dim)))
        );
        let small = fragments.room(16 << 10, 1024);
        assert!(super::fits(small, of(256)) && !super::fits(small, of(576)));
    }
}
