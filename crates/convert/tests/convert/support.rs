//! What the tests share: the truths of `make.py`, folders written from them, and metadata as JSON.

use std::collections::BTreeMap;

use gleed_gguf::{Array, Metadata, Value};
use gleed_testing::checkpoint::{self, Folder};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

/// What is known about one tiny checkpoint.
pub struct Truth {
    pub name: String,
    pub json: Json,
}

/// All truths, by name.
pub fn truths() -> Vec<Truth> {
    let files = std::fs::read_dir(checkpoint::data()).unwrap().map(|entry| entry.unwrap().path());
    let mut truths: Vec<Truth> = files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| Truth {
            name: path.file_stem().unwrap().to_str().unwrap().to_string(),
            json: checkpoint::read(&path),
        })
        .collect();
    truths.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(truths.len() > 30);
    truths
}

/// The first half of a SHA-256 in hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The weights of a tensor: a formula of its name, the same as in `make.py`.
pub fn weights(name: &str, count: usize) -> impl Iterator<Item = f32> {
    let start = u32::from_le_bytes(Sha256::digest(name.as_bytes())[..4].try_into().unwrap());
    let is_zero = name.ends_with("act_fn.eps");
    let near_one = name.contains("norm") || name.contains(".ln_");
    (0..count as u32).map(move |index| {
        let mut x = start.wrapping_add(index.wrapping_mul(0x9E37_79B1));
        x = (x ^ (x >> 15)).wrapping_mul(0x85EB_CA77);
        x ^= x >> 13;
        let steps = (x % 127) as f32 - 63.0;
        if is_zero {
            return 0.0;
        }
        if near_one { 1.0 + steps / 128.0 } else { steps / 256.0 }
    })
}

/// Bytes of a tensor of a type.
pub fn encoded(name: &str, kind: &str, count: usize) -> Vec<u8> {
    let bytes = |value: f32| match kind {
        "F32" => value.to_le_bytes().to_vec(),
        "F16" => half(value).to_le_bytes().to_vec(),
        "BF16" => ((value.to_bits() >> 16) as u16).to_le_bytes().to_vec(),
        // Seven bits of codes, or exponents of blocks.
        "U8" if name.ends_with("_scales") => vec![(value * 256.0 + 63.0) as u8 % 4 + 121],
        "U8" => vec![(value * 256.0 + 63.0) as u8],
        _ => panic!("{kind}"),
    };
    weights(name, count).flat_map(bytes).collect()
}

/// The bits of a number that f16 holds exactly, and that is not too small for its normal ones.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = (bits >> 23 & 0xff) as i32 - 127 + 15;
    assert!((1..31).contains(&exponent) && bits & 0x1fff == 0);
    (bits >> 16 & 0x8000) as u16 | (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
}

/// A safetensors file of tensors in this order: name, type, shape, bytes.
pub fn safetensors(tensors: &[(String, String, Vec<usize>, Vec<u8>)]) -> Vec<u8> {
    let (mut table, mut data) = (Map::new(), Vec::new());
    for (name, kind, shape, bytes) in tensors {
        let start = data.len();
        data.extend_from_slice(bytes);
        table.insert(
            name.clone(),
            json!({"dtype": kind, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    }
    let header = serde_json::to_vec(&table).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

impl Truth {
    /// The checkpoint's tensors.
    pub fn tensors(&self) -> Vec<(String, String, Vec<usize>, Vec<u8>)> {
        let source: BTreeMap<String, (String, Vec<usize>)> =
            serde_json::from_value(self.json["source"].clone()).unwrap();
        source
            .into_iter()
            .map(|(name, (kind, shape))| {
                let bytes = encoded(&name, &kind, shape.iter().product());
                (name, kind, shape, bytes)
            })
            .collect()
    }

    /// Writes all files but the weights into a folder that is called as it was when the truth was made.
    pub fn write_small(&self) -> Folder {
        let folder = Folder::new("tiny");
        for file in ["config", "generation_config"] {
            if !self.json[file].is_null() {
                let text = self.json[file].to_string();
                std::fs::write(folder.path().join(format!("{file}.json")), text).unwrap();
            }
        }
        for (file, content) in self.json["modules"].as_object().into_iter().flatten() {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content.to_string()).unwrap();
        }
        folder.write_vocabulary(self.json["vocabulary"].as_str().unwrap());
        folder
    }

    /// Writes the folder.
    pub fn write(&self) -> Folder {
        let folder = self.write_small();
        // Those of modules have the name of their folder in front.
        let of_module = |name: &str| {
            let (module, rest) = name.split_once('.')?;
            module.ends_with("_Dense").then(|| (module.to_string(), rest.to_string()))
        };
        let (modules, own): (Vec<_>, Vec<_>) =
            self.tensors().into_iter().partition(|tensor| of_module(&tensor.0).is_some());
        std::fs::write(folder.path().join("model.safetensors"), safetensors(&own)).unwrap();
        for (name, kind, shape, bytes) in modules {
            let (module, name) = of_module(&name).unwrap();
            let file = folder.path().join(module).join("model.safetensors");
            std::fs::write(file, safetensors(&[(name, kind, shape, bytes)])).unwrap();
        }
        folder
    }
}

/// Metadata as `make.py` writes it: types and values, and long lists as a hash.
pub fn metadata_json(metadata: &Metadata) -> Map<String, Json> {
    metadata.iter().map(|(key, value)| (key.to_string(), value_json(value))).collect()
}

fn value_json(value: &Value) -> Json {
    match value {
        Value::U32(value) => json!(["uint32", value]),
        Value::I32(value) => json!(["int32", value]),
        Value::F32(value) => json!(["float32", f64::from(*value)]),
        Value::Bool(value) => json!(["bool", value]),
        Value::Str(value) => json!(["string", value]),
        Value::Array(Array::Bool(values)) => json!(["array", "bool", values]),
        Value::Array(Array::F32(values)) => list(
            "float32",
            values.iter().map(|value| (number(*value), value.to_le_bytes().to_vec())).collect(),
        ),
        Value::Array(Array::U8(values)) => {
            list("uint8", values.iter().map(|value| (json!(value), vec![*value])).collect())
        }
        Value::Array(Array::I32(values)) => {
            list("int32", values.iter().map(|value| (json!(value), value.to_le_bytes().to_vec())).collect())
        }
        Value::Array(Array::Str(values)) => list(
            "string",
            values.iter().map(|value| (json!(String::from_utf8_lossy(value)), value.to_vec())).collect(),
        ),
        other => panic!("{other:?}"),
    }
}

/// A number, or what it is called where JSON has none.
fn number(value: f32) -> Json {
    if value.is_finite() { json!(f64::from(value)) } else { json!(value.to_string()) }
}

fn list(kind: &str, parts: Vec<(Json, Vec<u8>)>) -> Json {
    if parts.len() <= 64 {
        return json!(["array", kind, parts.into_iter().map(|(value, _)| value).collect::<Vec<_>>()]);
    }
    let bytes: Vec<u8> = parts
        .iter()
        .flat_map(|(_, bytes)| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat())
        .collect();
    json!(["array", kind, parts.len(), hash(&bytes)])
}
