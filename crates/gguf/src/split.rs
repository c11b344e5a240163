//! Split files: `name-00001-of-00003.gguf` and its siblings, each a GGUF file with some of the tensors.

use std::path::{Path, PathBuf};

use crate::{Error, Metadata, Result};

/// Which part of how many a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Counted from zero.
    pub number: usize,
    pub count: usize,
}

impl Split {
    /// What the metadata of one file says; `None` for a file that is whole.
    pub fn of(metadata: &Metadata) -> Result<Option<Split>> {
        let Some(count) = metadata.size("split.count")?.filter(|&count| count > 1) else { return Ok(None) };
        let number =
            metadata.size("split.no")?.ok_or_else(|| Error::MissingKey { key: "split.no".into() })?;
        if count > 65_535 || number >= count {
            return Err(Error::Unsupported(format!(
                "keys split.no and split.count say part {} of {count}; the file is damaged",
                number + 1
            )));
        }
        Ok(Some(Split { number, count }))
    }

    /// How the file name of this part ends.
    fn suffix(self) -> String {
        format!("-{:05}-of-{:05}.gguf", self.number + 1, self.count)
    }

    /// The paths of all parts, given the path of this one.
    pub fn siblings(self, path: &Path) -> Result<Vec<PathBuf>> {
        let name = path.file_name().unwrap_or_default();
        let Some(stem) = name.to_str().and_then(|name| name.strip_suffix(&self.suffix())) else {
            return Err(Error::Malformed {
                file: path.display().to_string(),
                what: format!(
                    "is part {} of {} of a split file, so its name must end in {}; rename it back",
                    self.number + 1,
                    self.count,
                    self.suffix()
                ),
            });
        };
        let part = |number| path.with_file_name(format!("{stem}{}", Split { number, ..self }.suffix()));
        Ok((0..self.count).map(part).collect())
    }
}
