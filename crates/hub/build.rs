//! Deflates the model that is inside the crate: a third of the whole program would be its bytes.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::{env, io};

use flate2::Compression;
use flate2::write::DeflateEncoder;

const MODEL: &str = "../../models/stories15M-q8_0.gguf";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={MODEL}");
    let model = fs::read(MODEL)?;
    println!("cargo::rustc-env=EMBEDDED_BYTES={}", model.len());
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    let file = File::create(folder.join("embedded.deflate"))?;
    let mut encoder = DeflateEncoder::new(file, Compression::default());
    encoder.write_all(&model)?;
    encoder.finish()?.flush()
}
