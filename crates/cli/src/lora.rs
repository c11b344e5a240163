//! Adapters beside a model: what `--lora` names, and how much of each.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use gleed_gguf::Gguf;
use gleed_model::Model;
use gleed_model::adapters::{Adapter, join};

use crate::output;

/// A file, and how much of it answers take that do not say.
#[derive(Clone, Debug, PartialEq)]
pub struct Lora {
    path: PathBuf,
    scale: f32,
}

impl FromStr for Lora {
    type Err = Infallible;

    /// `FILE` or `FILE:SCALE`; a name may have colons of its own.
    fn from_str(text: &str) -> Result<Lora, Infallible> {
        let scaled = text.rsplit_once(':').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
        let (path, scale) = scaled.unwrap_or((text, 1.0));
        Ok(Lora { path: PathBuf::from(path), scale })
    }
}

impl fmt::Display for Lora {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.scale)
    }
}

/// A model with its adapters, and the file that both are in.
pub fn adapt(file: Gguf, model: Model, named: &[Lora]) -> Result<(Gguf, Model, Vec<Adapter>)> {
    let mut adapters = Vec::with_capacity(named.len());
    for Lora { path, scale } in named {
        if let Some((file, scale)) = misread(path) {
            bail!("--lora {}: {scale} is not a scale; write {file}:0.5", path.display());
        }
        let adapter = Gguf::open(path).context("--lora")?;
        let adapter = Adapter::read(adapter, *scale, &model).context("--lora")?;
        if let Some(first) = adapter.unused.first() {
            output::warning(format!(
                "{}: {} tensors are not used, such as {first}: adapters change matrices only",
                path.display(),
                adapter.unused.len()
            ));
        }
        adapters.push(adapter);
    }
    let model = model.adapted(&adapters)?;
    Ok((join(file, &adapters)?, model, adapters))
}

/// The file and what stands behind its last colon, where that is no number and there is only a file without it.
fn misread(path: &Path) -> Option<(&str, &str)> {
    let (file, scale) = path.to_str()?.rsplit_once(':')?;
    (!path.exists() && Path::new(file).is_file()).then_some((file, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_stands_behind_the_last_colon() {
        let lora = |text: &str| text.parse::<Lora>().unwrap();
        let named = |path: &str, scale| Lora { path: PathBuf::from(path), scale };
        assert_eq!(lora("a.gguf"), named("a.gguf", 1.0));
        assert_eq!(lora("a.gguf:0.25"), named("a.gguf", 0.25));
        assert_eq!(lora("C:\\a.gguf"), named("C:\\a.gguf", 1.0));
        assert_eq!(lora("C:\\a.gguf:-2"), named("C:\\a.gguf", -2.0));
        assert_eq!(lora("a:b.gguf:1e-3"), named("a:b.gguf", 1e-3));
    }
}
