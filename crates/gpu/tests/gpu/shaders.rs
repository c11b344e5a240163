//! Every kernel text in the languages of all devices: Metal's, DirectX's and Vulkan's, by the translator
//! that wgpu uses. A text that one of them cannot take fails here.

use std::collections::HashSet;

use crate::common::{FAMILIES, RECURRENT, executor, gpu, tiny};
use gleed_gguf::Format;
use gleed_gpu::Options;
use gleed_model::Arithmetic;
use gleed_model::KvType;
use gleed_model::fuse::{Rules, fuse};
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};

/// Formats that matrices can be encoded to, one of each kind of layout among them.
const FORMATS: [Format; 17] = [
    Format::F32,
    Format::F16,
    Format::BF16,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q8_0,
    Format::Q2_K,
    Format::Q3_K,
    Format::Q4_K,
    Format::Q5_K,
    Format::Q6_K,
    Format::IQ4_NL,
    Format::TQ1_0,
    Format::TQ2_0,
    Format::MXFP4,
];

/// The texts of all families, KV types and formats, plain and fused.
fn texts() -> HashSet<String> {
    let gpu = gpu();
    let mut texts = HashSet::new();
    for family in FAMILIES.into_iter().chain(RECURRENT) {
        let (file, plain) = tiny(family, &FORMATS, 1);
        // States are not stored as keys and values are.
        let kinds = [KvType::F32, KvType::F16, KvType::Q8_0];
        for kv in kinds.into_iter().filter(|kv| *kv == KvType::F32 || !RECURRENT.contains(&family)) {
            let fused = fuse(&plain, Rules::ALL);
            for (program, arithmetic) in
                [(&plain, Arithmetic::F32), (&fused, Arithmetic::F32), (&fused, Arithmetic::Q8)]
            {
                let options = Options {
                    arithmetic,
                    kv,
                    max_rows: 4,
                    pages: 1,
                    window_sequences: None,
                    slots: 6,
                    logits_rows: None,
                };
                texts.extend(executor(&gpu, &file, program, options).kernel_texts().map(str::to_string));
            }
        }
    }
    // Those that measure a device's limits are no part of a program.
    let bind = |name: &str, element: &str, binding: u32| {
        format!("@group(0) @binding({binding}) var<storage, read_write> {name}: array<{element}>;\n")
    };
    let names = "const EACH = 16u;\nconst STEPS = 256u;\n".to_string() + &bind("out", "u32", 2);
    texts.insert(names.clone() + include_str!("../../src/limits/f32.wgsl"));
    texts.insert(names.clone() + include_str!("../../src/limits/int8.wgsl"));
    texts.insert(names + &bind("data", "vec4<u32>", 3) + include_str!("../../src/limits/memory.wgsl"));
    texts
}

fn to_metal(module: &naga::Module, info: &ModuleInfo) -> Result<String, String> {
    let mut options = msl::Options { lang_version: (2, 4), ..msl::Options::default() };
    // Metal numbers buffers itself; any numbers do for the text.
    let resources = module.global_variables.iter().filter_map(|(_, variable)| variable.binding);
    let bind_target = |slot: usize| msl::BindTarget { buffer: Some(slot as u8), ..Default::default() };
    let resources = resources.enumerate().map(|(slot, binding)| (binding, bind_target(slot))).collect();
    let entry = msl::EntryPointResources { resources, sizes_buffer: Some(30), ..Default::default() };
    options.per_entry_point_map.insert("main".to_string(), entry);
    options.fake_missing_bindings = false;
    let written = msl::write_string(module, info, &options, &msl::PipelineOptions::default());
    written.map(|(text, _)| text).map_err(|e| e.to_string())
}

fn to_directx(module: &naga::Module, info: &ModuleInfo) -> Result<String, String> {
    let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_2, ..hlsl::Options::default() };
    let (mut text, pipeline) = (String::new(), hlsl::PipelineOptions::default());
    let mut writer = hlsl::Writer::new(&mut text, &options, &pipeline);
    writer.write(module, info, None).map_err(|e| e.to_string())?;
    Ok(text)
}

#[test]
fn every_kernel_translates_to_every_language() {
    let texts = texts();
    assert!(texts.len() > 50, "{}", texts.len());
    for text in &texts {
        // A driver of NVIDIA's was seen to lose booleans there.
        let shared = text.lines().find(|line| line.starts_with("var<workgroup>") && line.contains("bool"));
        assert_eq!(shared, None, "booleans in workgroup memory");
        let module = naga::front::wgsl::parse_str(text)
            .unwrap_or_else(|error| panic!("{}\n{text}", error.emit_to_string(text)));
        let capabilities =
            Capabilities::SHADER_FLOAT16_IN_FLOAT32 | Capabilities::SHADER_FLOAT16 | Capabilities::SUBGROUP;
        let info = Validator::new(ValidationFlags::all(), capabilities)
            .validate(&module)
            .unwrap_or_else(|error| panic!("{error:?}\n{text}"));
        let words = spv::write_vec(&module, &info, &spv::Options::default(), None);
        assert!(words.unwrap_or_else(|error| panic!("SPIR-V: {error}\n{text}")).len() > 100);
        let metal = to_metal(&module, &info).unwrap_or_else(|error| panic!("Metal: {error}\n{text}"));
        assert!(metal.contains("kernel void"));
        let directx = to_directx(&module, &info).unwrap_or_else(|error| panic!("HLSL: {error}\n{text}"));
        assert!(directx.contains("numthreads"));
    }
}
