//! Every kernel through naga to the languages of all backends.

use crate::linear::{Combination, InputKind, Layout, LinearSpec, Tiling, quantize_source, source};
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

fn translate(source: &str) {
    let (module, info) = translate_for_vulkan(source);
    let pipeline = naga::back::msl::PipelineOptions::default();
    let options =
        naga::back::msl::Options { lang_version: (2, 3), fake_missing_bindings: true, ..Default::default() };
    naga::back::msl::write_string(&module, &info, &options, &pipeline).unwrap();
    let options = naga::back::hlsl::Options { fake_missing_bindings: true, ..Default::default() };
    let pipeline = naga::back::hlsl::PipelineOptions::default();
    let mut text = String::new();
    naga::back::hlsl::Writer::new(&mut text, &options, &pipeline).write(&module, &info, None).unwrap();
}

#[test]
fn every_kernel_is_translated_for_vulkan_metal_and_dx12() {
    let mut layouts: Vec<Layout> = Vec::new();
    for format in Format::all() {
        let (layout, _) = Layout::of(format);
        if !layouts.contains(&layout) {
            layouts.push(layout);
        }
    }
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
