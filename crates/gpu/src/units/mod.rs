//! Matrix units: kernels for them that need one buffer, and whether they are what the kernels expect.

pub(crate) mod chains;
pub(crate) mod fragments;
pub(crate) mod matrices;
pub(crate) mod spirv;

use gleed_model::arithmetic::unit;
use half::f16;

use crate::compiler::Pipeline;
use crate::{AdapterInfo, Error, Gpu, Result};
use fragments::{FRAGMENTS, Fragments, UNITS_ENABLED};
use matrices::{Element, MatrixShape};

/// Lanes of a subgroup, and words of a product that each of them has; subgroups that are asked.
const LANES: u32 = 32;
const WORDS: u64 = 8;
const SUBGROUPS: usize = 2;

/// Outputs and rows of a product.
const SIDE: u32 = 16;

/// Products of halves, summed in f32, of `side` outputs, rows and columns.
const fn products(side: u32) -> MatrixShape {
    MatrixShape { m: side, n: side, k: side, operands: Element::F16, sums: Element::F32 }
}

/// Whether an adapter may have units for [`Tiling::Halves`](crate::linear::Tiling::Halves): products of f16, summed in
/// f32, by subgroups of 32. An open device does not list them if it computes something else than its kernels expect.
pub fn half_units(adapter: &AdapterInfo) -> bool {
    // Metal does not say how large its subgroups are: its units are asked.
    let lanes = adapter.subgroups == Some((LANES, LANES)) || adapter.backend == wgpu::Backend::Metal;
    let shapes = &adapter.cooperative_matrices;
    adapter.f16 && lanes && (shapes.contains(&products(16)) || shapes.contains(&products(8)))
}

/// The name of a setting that rules out some of what units can do, for who compares or suspects them: `shared`, that
/// lanes have elements of their own, and `none`, that there are any units.
const SETTING: &str = "GLEED_MATRIX_UNITS";

/// Finds out how kernels get at the elements of the device's matrices; none that it lists are there afterwards if they are
/// not as kernels need them.
pub(crate) fn find(gpu: &mut Gpu) -> Result<()> {
    let setting = std::env::var(SETTING).unwrap_or_default();
    let (lanes, shared) = match setting.as_str() {
        "" => (gpu.info.backend == wgpu::Backend::Vulkan, true),
        "shared" => (false, true),
        "none" => (false, false),
        other => {
            let reason = format!("{SETTING} is {other:?}; it may be shared or none");
            return Err(Error::Open { adapter: gpu.info.name.clone(), reason });
        }
    };
    let listed = |side| gpu.info.cooperative_matrices.contains(&products(side));
    let ways = [
        (Fragments::Lanes, lanes && listed(16)),
        (Fragments::Shared(16), shared && listed(16)),
        (Fragments::Shared(8), shared && listed(8)),
    ];
    let possible = half_units(&gpu.info);
    let mut ways = ways.into_iter().filter(|(_, is_there)| possible && *is_there).map(|(way, _)| way);
    match ways.find(|way| are_as_expected(gpu, *way).unwrap_or(false)) {
        Some(way) => gpu.compiler.set_fragments(way),
        None => gpu.info.cooperative_matrices.retain(|shape| ![8, 16].map(products).contains(shape)),
    }
    Ok(())
}

/// A kernel with [`FRAGMENTS`] that binds one buffer, which it reads and writes.
pub(crate) fn kernel(
    gpu: &Gpu,
    fragments: Fragments,
    name: &'static str,
    kernel: &str,
    out: &wgpu::Buffer,
) -> Result<(Pipeline, wgpu::BindGroup)> {
    let text = format!("{UNITS_ENABLED}{FRAGMENTS}{kernel}");
    let text = fragments.shared_in(&text).unwrap_or(text);
    // What SPIR-V binds is not looked up: it is said here.
    let entry = wgpu::BindGroupLayoutEntry {
        binding: 0,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: wgpu::BufferBindingType::Storage { read_only: false },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let (layout, bindings) = gpu.scoped(&format!("binding {name}"), || {
        let layout = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &[entry] });
        let entries = &[wgpu::BindGroupEntry { binding: 0, resource: out.as_entire_binding() }];
        let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries,
        });
        let layout = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        (layout, bindings)
    })?;
    // SAFETY: these kernels' loops end, and their indices are below the lengths of what they index.
    let pipeline = unsafe { gpu.compiler.pipeline(name, &text.into(), &layout) };
    Ok((pipeline, bindings))
}

/// What is asked of the units: as `halves_places.wgsl` counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// Whole numbers, whose sums are exact in any order.
    Whole = 0,
    /// Any halves.
    Any = 1,
    /// The same with all outputs alike, and with all rows.
    AlikeOutputs = 2,
    AlikeRows = 3,
}

/// Whether lanes have the elements of a product of halves where `fragments.wgsl` says, and a sum is the same bits wherever
/// in a product it is: then a row's results do not depend on its company. On some units the sums are also those that
/// [`gleed_model::arithmetic::unit`] defines, on others they are cut elsewhere.
fn are_as_expected(gpu: &Gpu, fragments: Fragments) -> Result<bool> {
    let bytes = SUBGROUPS as u64 * u64::from(LANES) * WORDS * 4;
    let (out, read) =
        (gpu.storage("places of a product", bytes)?, gpu.readable("places of a product", bytes)?);
    let ask = |question: Question| {
        let text = include_str!("halves_places.wgsl");
        let text = format!("const QUESTION = {}u;\n{text}", question as u32);
        let (pipeline, bindings) = kernel(gpu, fragments, "the places of a product", &text, &out)?;
        let found = run(gpu, &pipeline, &bindings, [&out, &read])?;
        Ok(found.into_iter().map(|bits| f32::from_bits(bits as u32)).collect::<Vec<f32>>())
    };
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
    if bits(&ask(Question::Whole)?) != bits(&expected(Question::Whole)) {
        return Ok(false);
    }
    let any = ask(Question::Any)?;
    if bits(&any) == bits(&expected(Question::Any)) {
        return Ok(true);
    }
    let (alike_outputs, alike_rows) = (ask(Question::AlikeOutputs)?, ask(Question::AlikeRows)?);
    let (first, second) = any.split_at(any.len() / SUBGROUPS);
    Ok(bits(first) == bits(second) && same_everywhere(&any, &alike_outputs, &alike_rows))
}

/// The output and the row of each element, in the order of lanes, of which each subgroup has the same.
fn places() -> impl Iterator<Item = (u32, u32)> {
    (0..SUBGROUPS as u32 * LANES).map(|thread| thread % LANES).flat_map(|lane| {
        let rows = [0, 1, 8, 9].map(|row| 2 * (lane % 4) + row);
        [lane / 4, lane / 4 + 8].into_iter().flat_map(move |output| rows.map(move |row| (output, row)))
    })
}

/// Whether sums are the same wherever they are: where all outputs are the first one, each has its sums, and where all rows
/// are the first one, each has its.
fn same_everywhere(any: &[f32], alike_outputs: &[f32], alike_rows: &[f32]) -> bool {
    let sum = |output: u32, row: u32| {
        let found = places().zip(any).find(|(place, _)| *place == (output, row));
        found.map(|(_, sum)| sum.to_bits())
    };
    let mut all = places().zip(alike_outputs.iter().zip(alike_rows));
    all.all(|((output, row), (of_first_output, of_first_row))| {
        Some(of_first_output.to_bits()) == sum(0, row) && Some(of_first_row.to_bits()) == sum(output, 0)
    })
}

/// A half of a matrix, as `halves_places.wgsl` makes it.
fn half_of(question: Question, seed: u32) -> f16 {
    let mixed = seed.wrapping_mul(0xc2b2_ae35);
    let bits = ((mixed ^ (mixed >> 15)).wrapping_mul(0x85eb_ca6b) >> 16) as u16;
    if question == Question::Whole {
        return f16::from_f32(f32::from(bits % 61) - 30.0);
    }
    f16::from_bits(if bits & 0x7c00 == 0x7c00 { bits ^ 0x4000 } else { bits })
}

/// What all lanes should have of the product.
fn expected(question: Question) -> Vec<f32> {
    let element = |(output, row): (u32, u32)| {
        let output = if question == Question::AlikeOutputs { 0 } else { output };
        let row = if question == Question::AlikeRows { 0 } else { row };
        (0..4).fold(0.0, |sum, step| {
            let of = |first: u32| {
                std::array::from_fn(|column| half_of(question, step * 512 + first + column as u32))
            };
            unit(sum, of(output * SIDE), of(256 + row * SIDE))
        })
    };
    places().map(element).collect()
}

/// What one workgroup of a kernel writes.
fn run(
    gpu: &Gpu,
    pipeline: &Pipeline,
    bindings: &wgpu::BindGroup,
    [out, read]: [&wgpu::Buffer; 2],
) -> Result<Vec<i32>> {
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(pipeline.get()?);
        pass.set_bind_group(0, bindings, &[]);
        pass.dispatch_workgroups(1, 1, 1);
    }
    encoder.copy_buffer_to_buffer(out, 0, read, 0, out.size());
    gpu.queue.submit([encoder.finish()]);
    let mut found = Vec::new();
    gpu.read(read, (out.size() / 4) as usize, &mut found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Grid, Source};
    use crate::linear::tests::emulation::{with_plain_halves, with_plain_parts};
    use crate::step::Counts;
    use crate::testing::{self, kernels};

    /// Equal elements could change places without being noticed.
    #[test]
    fn every_whole_element_is_expected_once() {
        let mut all = expected(Question::Whole);
        assert!(all.iter().any(|element| *element < 0.0) && all.iter().any(|element| *element > 0.0));
        all.sort_by(f32::total_cmp);
        all.dedup();
        assert!(all.len() > 240, "{}", all.len());
    }

    /// Units that cut sums elsewhere, but everywhere alike, keep the promise; others do not.
    #[test]
    fn sums_must_be_the_same_everywhere() {
        let all = [Question::Any, Question::AlikeOutputs, Question::AlikeRows].map(expected);
        let cut = |x: &f32| f32::from_bits(x.to_bits() & !0xff);
        let [any, outputs, rows] = all.map(|values| values.iter().map(cut).collect::<Vec<f32>>());
        assert!(same_everywhere(&any, &outputs, &rows));
        let mut other = outputs.clone();
        other[77] = f32::from_bits(other[77].to_bits() ^ 0x100);
        assert!(!same_everywhere(&any, &other, &rows) && !same_everywhere(&any, &outputs, &any));
    }

    /// What the kernel writes on any device, with products in plain WGSL.
    fn plain(question: Question, products: impl Fn(&str) -> String) -> Vec<f32> {
        let bytes = SUBGROUPS as u64 * u64::from(LANES) * WORDS * 4;
        let out = kernels().storage("test", bytes);
        let text = include_str!("halves_places.wgsl");
        let binding = "@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;";
        let source = Source::new("test", &text.replace(binding, ""))
            .size("QUESTION", question as usize)
            .write("out", "vec4<f32>", out)
            .on_units()
            .with_text(|text| products(&text));
        let dispatch = kernels().dispatch(source, Grid::Rows(1));
        testing::run(dispatch.run(Counts { rows: 1, ..Counts::default() }));
        testing::read(out)
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// The kernel multiplies the halves that are expected here.
    #[test]
    fn the_kernel_multiplies_what_is_expected() {
        for question in [Question::Whole, Question::Any, Question::AlikeOutputs, Question::AlikeRows] {
            let found = plain(question, |text| with_plain_halves(text, SUBGROUPS, "1u"));
            assert_eq!(bits(&found), bits(&expected(question)), "{question:?}");
        }
    }

    /// So it does where lanes share elements, and of smaller matrices.
    #[test]
    fn elements_that_lanes_share_are_multiplied_as_expected() {
        let found = plain(Question::Whole, with_plain_parts);
        assert_eq!(bits(&found), bits(&expected(Question::Whole)));
        let questions = [Question::Any, Question::AlikeOutputs, Question::AlikeRows];
        let [any, outputs, rows] = questions.map(|question| plain(question, with_plain_parts));
        assert!(same_everywhere(&any, &outputs, &rows));
        let near =
            |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-4 * expected.abs().max(1e4);
        assert!(any.iter().zip(&expected(Question::Any)).all(near), "{any:?}");
    }
}
