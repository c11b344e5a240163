//! What a single row has otherwise: the norm before experts within them, and the sum of what they give, with the norm after it.

use gleed_gguf::Format;
use gleed_model::routing::{Gate, Routing};

use super::*;
use crate::kernels::experts::{Choosing, route};
use crate::kernels::norm::{Also, Norm, norm};
use crate::linear::tests::support::{Written, assert_same};

const EPSILON: f32 = 1e-5;

/// A row of floats in a buffer of its own.
fn place(buffer: Buffer, width: usize) -> Place {
    Place { buffer, offset: 0, width, stride: width }
}

/// A product of one row: everything but the norm and the sum.
fn product<'a>(case: &Case, weights: &'a [PackedWeight], weighs: &[f32]) -> Product<'a> {
    let [outputs, slots] = [case.outputs, case.slots];
    let chosen: Vec<f32> = case.chosen.iter().flatten().map(|expert| *expert as f32).collect();
    let untouched = |width: usize| place(buffer(&vec![UNTOUCHED; width]), width);
    let mut matrices = weights.iter().map(|weight| Matrix { weight, bias: None });
    Product {
        first: matrices.next().unwrap(),
        second: matrices.next(),
        sizes: [case.experts, outputs, case.columns],
        choice: Some(place(buffer(&[&chosen, weighs].concat()), 2 * slots)),
        input: place(buffer(&case.input), case.input.len()),
        out: untouched(weights.len() * slots * outputs),
        activated: (weights.len() == 2).then(|| (Activation::Silu, untouched(slots * outputs))),
        normed: None,
        chooses: None,
        summed: None,
    }
}

fn run(product: &Product, way: Way, grid: impl Fn(u32) -> Grid) {
    let real = half_units(&setup().0.info);
    let (source, each) = product.source(0, way, real);
    let source = source.on_units();
    let source = if real { source } else { source.with_text(emulated) };
    let dispatch = kernels().dispatch(source, grid(each));
    testing::run(dispatch.run(Counts { rows: 1, ..Counts::default() }));
}

/// What an RMS norm of a row (+ another) gives, and what it writes for a layer that does without its floats.
fn normed(x: Place, addend: Option<Place>, weight: Buffer) -> (Vec<f32>, HalfRows) {
    let halves = HalfRows::new(&mut kernels(), 1, x.width);
    let out = place(buffer(&vec![0.0; x.width]), x.width);
    let of = Norm { weight, bias: None, epsilon: EPSILON, of_heads: false };
    let dispatch = norm(&mut kernels(), of, 1, x, addend, out, Also::HalfProducts(halves));
    testing::run(dispatch.run(Counts { rows: 1, ..Counts::default() }));
    (read(out.buffer), halves)
}

/// Experts that norm a row themselves have the bits of those that read the norm.
#[test]
fn norms_within_experts_are_those_before_them() {
    // Emulated subgroups wait for each other, so that they need as many columns each.
    let columns = if half_units(&setup().0.info) { 2080 } else { 1024 };
    let mut case = Case::new([5, 2, 1], [48, columns], &[Format::Q8_0; 2]);
    let weight = buffer(&Random(23).floats(columns));
    let x = place(buffer(&Random(29).floats(columns)), columns);
    let (floats, halves) = normed(x, None, weight);
    case.input = floats;
    let packed = case.upload(None);
    let split = direct_split(testing::gpu().facts().room(), columns).unwrap();
    let pairs = |each| Grid::Pairs { each, slots: case.slots };
    let outside = product(&case, &packed, &[0.5; 2]);
    run(&outside, Way::Direct { split }, pairs);
    let within = Product { normed: Some(Normed { x, weight, epsilon: EPSILON, halves }), ..outside };
    let [out, hidden] = [4, 2].map(|parts| place(buffer(&vec![0.0; parts * 48]), parts * 48));
    let within = Product { out, activated: Some((Activation::Silu, hidden)), ..within };
    run(&within, Way::Normed { split }, pairs);
    let truth: Vec<f32> = case.truth().concat();
    assert_same("experts of a norm", &read(outside.out.buffer), &truth);
    assert_same("experts that norm", &read(out.buffer), &truth);
    assert_same("what they activate", &read(hidden.buffer), &read(outside.activated.unwrap().1.buffer));

    // The same experts, which they find for themselves.
    let mut scores = vec![0.0; case.experts];
    let chosen = case.chosen.as_ref().unwrap();
    chosen.iter().zip([2.0, 1.0]).for_each(|(expert, score)| scores[*expert] = score);
    let gate = Gate::Softmax;
    let routing =
        Routing { gate, used: 2, groups: None, bias: None, normalised: true, scale: 1.5, factors: None };
    let scores = place(buffer(&scores), case.experts);
    let [by_itself, choice] = [(); 2].map(|()| place(buffer(&[0.0; 4]), 4));
    let choosing = Choosing { routing, bias: None, factors: None, scores, out: by_itself };
    let dispatch = route(&mut kernels(), choosing);
    testing::run(dispatch.run(Counts { rows: 1, ..Counts::default() }));
    let out = place(buffer(&vec![0.0; out.width]), out.width);
    let chooses = Some(Choosing { out: choice, ..choosing });
    run(&Product { choice: Some(choice), chooses, out, ..within }, Way::Normed { split }, pairs);
    assert_same("experts that choose", &read(out.buffer), &truth);
    let expected: Vec<f32> = read(by_itself.buffer);
    assert_eq!([expected[0], expected[1]], [chosen[0] as f32, chosen[1] as f32]);
    assert_same("a choice", &read(choice.buffer), &expected);
}

/// The sum of what experts give has the order of ranks; the norm after it is what it would be by itself.
#[test]
fn sums_within_experts_are_those_after_them() {
    let (gpu, _, fused) = setup();
    let shapes = if half_units(&gpu.info) {
        vec![([9, 8, 1], [64, 768]), ([5, 3, 1], [32, 2880]), ([5, 4, 1], [96, 512])]
    } else {
        vec![([5, 3, 1], [64, 1024]), ([4, 2, 1], [32, 160])]
    };
    for (experts, sizes) in shapes {
        let case = Case::new(experts, sizes, &[Format::Q8_0]).apart();
        let [outputs, slots] = [case.outputs, case.slots];
        let packed = case.upload(None);
        let weighs: Vec<f32> = (0..slots).map(|slot| 0.3 + slot as f32 / 7.0).collect();
        let given = &case.truth()[0];
        let sum = |weighted: bool, output: usize| {
            let one = |sum: f32, slot: usize| {
                let (weight, x) = (if weighted { weighs[slot] } else { 1.0 }, given[slot * outputs + output]);
                if *fused { weight.mul_add(x, sum) } else { weight * x + sum }
            };
            (0..slots).fold(0.0, one)
        };
        let sums =
            |weighted: bool| -> Vec<f32> { (0..outputs).map(|output| sum(weighted, output)).collect() };
        let plain = product(&case, &packed, &weighs);
        let split = summed_split(testing::gpu().facts().room(), &plain).unwrap();
        for weighted in [true, false] {
            let out = place(buffer(&vec![0.0; outputs]), outputs);
            let summed = Some(Summed { weighted, out, next: None });
            run(&Product { summed, ..plain }, Way::Summed { split }, Grid::Rows);
            assert_same("a sum", &read(out.buffer), &sums(weighted));
        }

        let before = Random(31).floats(outputs);
        let weights = Random(37).floats(outputs);
        let [residual, same] = [(); 2].map(|()| place(buffer(&before), outputs));
        let (weight, y) = (buffer(&weights), place(buffer(&sums(true)), outputs));
        let halves = HalfRows::new(&mut kernels(), 1, outputs);
        let next = Some(NextNorm { residual, weight, halves });
        let summed = Some(Summed { weighted: true, out: y, next });
        run(&Product { summed, ..plain }, Way::Summed { split }, Grid::Rows);
        let (_, outside) = normed(same, Some(y), weight);
        let added: Vec<f32> = read(residual.buffer);
        assert_same("a residual", &added, &read(same.buffer));
        let written = Written::read(halves, outputs);
        let products: Vec<f32> = added.iter().zip(&weights).map(|(x, w)| x * w).collect();
        written.assert_groups("the next norm", &products);
        assert_eq!(written.squares(outputs), Written::read(outside, outputs).squares(outputs));
        assert!(read::<f32>(plain.out.buffer).iter().all(|value| *value == UNTOUCHED), "only the sum");
    }
}
