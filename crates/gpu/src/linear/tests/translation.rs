//! Every kernel through naga to the languages of all backends.

use crate::linear::{
    Combination, HalfLayout, InputKind, Layout, LinearSpec, Tiling, quantize_source, source,
};
use crate::units::fragments::Fragments;
use gleed_gguf::Format;
use gleed_model::program::Activation;

/// Parses and validates a kernel and writes it as SPIR-V; returns what the other writers need.
fn translate_for_vulkan(source: &str) -> (naga::Module, naga::valid::ModuleInfo) {
    let module = naga::front::wgsl::parse_str(source)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}\n{source}", error.emit_to_string(source)));
    naga::back::spv::write_vec(&module, &info, &naga::back::spv::Options::default(), None).unwrap();
    (module, info)
}

fn for_metal(module: &naga::Module, info: &naga::valid::ModuleInfo) -> String {
    let pipeline = naga::back::msl::PipelineOptions::default();
    let options =
        naga::back::msl::Options { lang_version: (2, 3), fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(module, info, &options, &pipeline).unwrap().0
}

fn translate(source: &str) {
    let (module, info) = translate_for_vulkan(source);
    for_metal(&module, &info);
    let options = naga::back::hlsl::Options { fake_missing_bindings: true, ..Default::default() };
    let pipeline = naga::back::hlsl::PipelineOptions::default();
    let mut text = String::new();
    naga::back::hlsl::Writer::new(&mut text, &options, &pipeline).write(&module, &info, None).unwrap();
}

/// Bytes of memory that a workgroup needs.
fn workgroup_bytes(module: &naga::Module) -> u32 {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).unwrap();
    let all = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = all.filter(|variable| variable.space == naga::AddressSpace::WorkGroup);
    shared.map(|variable| layouter[variable.ty].size).sum()
}

/// A kernel on matrix units, of which lanes share the elements. Returns the bytes that a workgroup of it needs.
pub(crate) fn translate_shared(text: &str) -> u32 {
    let [sixteen, eight] = [16, 8].map(|side| Fragments::Shared(side).shared_in(text).expect("fragments"));
    translate_for_vulkan(&sixteen);
    let (module, info) = translate_for_vulkan(&eight);
    let metal = for_metal(&module, &info);
    assert!(metal.contains("simdgroup_multiply_accumulate(") && metal.contains("simdgroup_half8x8"));
    workgroup_bytes(&module)
}

/// What is different of all formats: those that are laid out alike have the same kernels.
fn different<T: PartialEq>(of: impl Fn(Format) -> T) -> Vec<T> {
    let mut all = Vec::new();
    for one in Format::all().map(of) {
        if !all.contains(&one) {
            all.push(one);
        }
    }
    all
}

/// And fit into its workgroups.
#[test]
fn kernels_on_units_are_translated_for_metal() {
    const MEMORY: u32 = 32 << 10;
    let room = Fragments::Shared(8).room(MEMORY, 1024);
    let fits = |spec, tiling| {
        let bytes = translate_shared(&source(spec, tiling));
        assert!(bytes <= MEMORY, "{tiling} needs {bytes} bytes");
    };
    for layout in different(HalfLayout::of) {
        let first = (Layout::Halves(layout), false);
        let gated = Some((first, Combination::Gated(Activation::Silu)));
        for second in [None, gated] {
            let spec =
                |input| LinearSpec { first, second, input, normed: false, requantizes: false, known: None };
            // Few segments, and more than a workgroup has subgroups.
            for groups in [36, 384] {
                for tiling in Tiling::halves(groups, room) {
                    fits(spec(InputKind::Halves(groups)), tiling);
                }
                assert!(Tiling::has_single(32 * groups as usize, room));
                let single = Tiling::single(groups, second.is_some(), room);
                fits(spec(InputKind::SingleNormed(groups)), single);
            }
        }
    }
}

#[test]
fn every_kernel_is_translated_for_vulkan_metal_and_dx12() {
    let layouts = different(|format| Layout::of(format).0);
    for layout in &layouts {
        let specs = |second: Layout| {
            let plain = LinearSpec {
                first: (*layout, false),
                second: None,
                input: InputKind::Aligned,
                normed: false,
                requantizes: false,
                known: None,
            };
            let with = |bias, combination| Some(((second, bias), combination));
            [
                plain,
                LinearSpec { first: (*layout, true), input: InputKind::Unaligned, ..plain },
                LinearSpec { second: with(false, Combination::Gated(Activation::Silu)), ..plain },
                LinearSpec { second: with(true, Combination::Gated(Activation::Gelu)), ..plain },
                LinearSpec { second: with(true, Combination::Joined), ..plain },
            ]
        };
        if let Layout::Integers(_) = layout {
            for spec in specs(layouts[3]) {
                let gated = matches!(spec.second, Some((_, Combination::Gated(_))));
                let spec = LinearSpec { input: InputKind::Integers, requantizes: gated, ..spec };
                let mut variants = vec![spec, LinearSpec { normed: true, ..spec }];
                if spec.second.is_none() {
                    variants.push(LinearSpec { requantizes: true, ..spec });
                }
                for spec in variants {
                    Tiling::INTEGERS.iter().for_each(|tiling| translate(&source(spec, *tiling)));
                }
            }
        }
        for spec in specs(layouts[3]) {
            Tiling::ALL.iter().for_each(|tiling| translate(&source(spec, *tiling)));
        }
        translate(&source(specs(layouts[3])[0], Tiling::Few { rows: 1, outputs: 2 }));
    }
    for kind in [InputKind::Aligned, InputKind::Unaligned] {
        translate(&quantize_source(kind));
    }
}
