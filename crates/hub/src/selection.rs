//! Choosing a file of a repository on the hub: what `hf:owner/repository[@revision][:FORMAT]` means.
//!
//! A repository usually holds one model in many formats. The format is read from the names of its files; where
//! none is asked for, the first of [`PREFERENCE`] that there is wins.

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::reference::Reference;
use crate::repository::{Repository, is_sound_step};

/// Formats in the order in which they are chosen: Q4_K_M, then its neighbours of about four bits, then more
/// bits as far as they are worth their size, then fewer, then what is not quantised.
pub const PREFERENCE: &[&str] = &[
    "Q4_K_M", "Q4_K_S", "Q4_K_L", "Q4_K_XL", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4", "Q5_K_M", "Q5_K_S",
    "Q5_K_L", "Q5_K_XL", "Q5_1", "Q5_0", "Q6_K", "Q6_K_L", "Q6_K_XL", "Q8_0", "Q8_K_XL", "Q3_K_XL", "Q3_K_L",
    "Q3_K_M", "IQ3_M", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS", "Q2_K_XL", "Q2_K_L", "Q2_K", "Q2_K_S",
    "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "BF16", "F16", "FP16", "F32", "FP32", "IQ1_M", "IQ1_S",
];

/// A repository of the hub, of which one model is to be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    repository: Repository,
    format: Option<String>,
}

impl Selection {
    /// Where the model is.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The format that was asked for.
    pub fn format(&self) -> Option<&str> {
        self.format.as_deref()
    }

    /// The model to take, by its first file, of the files of the repository.
    pub fn choose<'a>(&self, files: impl Iterator<Item = &'a str> + Clone) -> Result<Reference> {
        let mut models = self.matching(files.clone());
        if self.format.is_none() {
            let best = models.iter().map(|model| rank(model.file())).min();
            models.retain(|model| Some(rank(model.file())) == best);
        }
        match (models.len(), &self.format) {
            (1, _) => Ok(models.remove(0)),
            (0, None) => Err(self.refused("has no model in a .gguf file".to_owned())),
            (0, Some(format)) => {
                let all = self.models(files);
                let formats = list(all.iter().map(|model| format_of(model.file()).unwrap_or(model.file())));
                Err(self.refused(format!("has no {format}, but {formats}")))
            }
            _ => Err(self.ambiguous(&models)),
        }
    }

    /// All models of the right format, each by its first file, sorted by name.
    pub(crate) fn matching<'a>(&self, files: impl Iterator<Item = &'a str>) -> Vec<Reference> {
        let mut models = self.models(files);
        if let Some(format) = &self.format {
            models.retain(|model| has_format(model.file(), format));
        }
        models
    }

    /// It means several models, and nothing says which one.
    pub(crate) fn ambiguous(&self, models: &[Reference]) -> Error {
        let files = list(models.iter().map(Reference::file));
        let first = models.first().map(|model| format!(", as {model}")).unwrap_or_default();
        self.refused(format!("has several models that fit ({files}): name one{first}"))
    }

    /// All models of the repository, each by its first file, sorted by name.
    fn models<'a>(&self, files: impl Iterator<Item = &'a str>) -> Vec<Reference> {
        let models = files.filter(|file| !is_companion(file));
        let found = models.filter_map(|file| Reference::new(self.repository.clone(), file));
        let mut models: Vec<Reference> = found.map(|reference| reference.parts().swap_remove(0)).collect();
        models.sort_by(|a, b| a.file().cmp(b.file()));
        models.dedup();
        models
    }

    fn refused(&self, what: String) -> Error {
        Error::Selection { selection: self.to_string(), what }
    }
}

impl FromStr for Selection {
    type Err = Error;

    /// Reads what follows `hf:`.
    fn from_str(text: &str) -> Result<Self> {
        let refused = |what| Error::Reference { text: text.to_owned(), what };
        let (path, format) = match text.split_once(':') {
            Some((path, format)) => (path, Some(format)),
            None => (text, None),
        };
        let (owner, name) = path.split_once('/').ok_or_else(|| refused("is incomplete"))?;
        let repository = Repository::new(owner, name).filter(|_| format.is_none_or(is_sound_step));
        let repository = repository.ok_or_else(|| refused("has an empty or odd step"))?;
        Ok(Self { repository, format: format.map(str::to_owned) })
    }
}

impl Display for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "hf:{}{}", self.repository, self.repository.suffix())?;
        self.format.as_ref().map_or(Ok(()), |format| write!(formatter, ":{format}"))
    }
}

/// Whether a file stands beside models without being one: a projector of images, or statistics.
fn is_companion(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    name.contains("mmproj") || name.contains("imatrix")
}

/// Where a file stands in the order of preference.
fn rank(path: &str) -> usize {
    let place = format_of(path).and_then(|format| PREFERENCE.iter().position(|known| *known == format));
    place.unwrap_or(PREFERENCE.len())
}

impl Reference {
    /// The format that the file's name, or else the folder it is in, says it has.
    pub fn format(&self) -> Option<&'static str> {
        format_of(self.file())
    }
}

/// The format that a file's name, or else the folder it is in, says it has.
fn format_of(path: &str) -> Option<&'static str> {
    path.rsplit('/').find_map(|step| {
        let known = |word: &str| PREFERENCE.iter().copied().find(|known| known.eq_ignore_ascii_case(word));
        step.rsplit(['-', '.']).find_map(known)
    })
}

/// Whether a file's name, or the folder it is in, says that it has this format. Formats that have no name of
/// their own, such as UD-Q4_K_XL, are what a name ends with.
fn has_format(path: &str, format: &str) -> bool {
    let Some(without) = path.strip_suffix(".gguf") else { return false };
    // The first part of a split file: see `models`.
    let stem = without.find("-00001-of-").map_or(without, |end| &without[..end]);
    let ends_with = |step: &str| {
        let start = step.len().checked_sub(format.len()).filter(|start| step.is_char_boundary(*start));
        start.is_some_and(|start| {
            step[start..].eq_ignore_ascii_case(format) && (start == 0 || step[..start].ends_with(['-', '.']))
        })
    };
    match format_of(path) {
        Some(known) if known.eq_ignore_ascii_case(format) => true,
        _ => stem.split('/').any(ends_with),
    }
}

/// Names in one line, the first few of them.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 20;
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    match names.len() {
        0 => "no other".to_owned(),
        1..=MOST => names.join(", "),
        count => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(text: &str) -> Selection {
        text.parse().unwrap()
    }

    fn chosen(text: &str, files: &[&str]) -> String {
        match selection(text).choose(files.iter().copied()) {
            Ok(reference) => reference.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn selections_are_read_and_written() {
        for text in ["o/r", "o/r:Q8_0", "o/r@v2", "o/r@v2:UD-Q4_K_XL"] {
            assert_eq!(selection(text).to_string(), format!("hf:{text}"));
        }
        for text in
            ["", "o", "o/", "/r", "o/r:", "o/r@", "o/r@:Q8_0", "o/..", "o/r:a/b", "o/r:a:b", "o/a b\n"]
        {
            assert!(text.parse::<Selection>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_default_is_the_nearest_to_q4_k_m() {
        // Names as publishers write them.
        let files = [
            "README.md",
            "Qwen3-8B-BF16.gguf",
            "Qwen3-8B-Q2_K.gguf",
            "Qwen3-8B-Q4_K_M.gguf",
            "Qwen3-8B-Q8_0.gguf",
            "mmproj-Q4_K_M.gguf",
        ];
        assert_eq!(chosen("o/r", &files), "hf:o/r/Qwen3-8B-Q4_K_M.gguf");
        let without =
            |left_out: &str| files.into_iter().filter(|file| !file.contains(left_out)).collect::<Vec<_>>();
        assert_eq!(chosen("o/r", &without("Q4_K_M")), "hf:o/r/Qwen3-8B-Q8_0.gguf");
        assert_eq!(chosen("o/r@v2", &files[..3]), "hf:o/r@v2/Qwen3-8B-Q2_K.gguf");
        assert_eq!(chosen("o/r", &files[..2]), "hf:o/r/Qwen3-8B-BF16.gguf");
        assert_eq!(chosen("o/r", &["m-q5_0.gguf", "m.q4_0.gguf"]), "hf:o/r/m.q4_0.gguf");
        assert_eq!(chosen("o/r", &["model.gguf"]), "hf:o/r/model.gguf");
        assert_eq!(
            chosen("o/r", &["README.md", "mmproj.gguf"]),
            "error: hf:o/r has no model in a .gguf file"
        );
    }

    #[test]
    fn a_format_that_is_asked_for_is_never_replaced() {
        let files = ["m-Q4_0.gguf", "m-UD-Q4_K_XL.gguf", "m-fp16.gguf"];
        assert_eq!(chosen("o/r:q4_0", &files), "hf:o/r/m-Q4_0.gguf");
        assert_eq!(chosen("o/r:UD-Q4_K_XL", &files), "hf:o/r/m-UD-Q4_K_XL.gguf");
        assert_eq!(chosen("o/r:Q4_K_XL", &files), "hf:o/r/m-UD-Q4_K_XL.gguf");
        assert_eq!(
            chosen("o/r:Q4_K_M", &files),
            "error: hf:o/r:Q4_K_M has no Q4_K_M, but Q4_0, Q4_K_XL, FP16"
        );
        // Not a part of another name.
        assert!(chosen("o/r:0", &files).starts_with("error: "));
        assert!(chosen("o/r:p16", &files).starts_with("error: "));
    }

    #[test]
    fn split_files_count_once_and_folders_name_formats() {
        let files = [
            "BF16/m-00001-of-00002.gguf",
            "BF16/m-00002-of-00002.gguf",
            "Q6_K/m-00002-of-00002.gguf",
            "Q6_K/m-00001-of-00002.gguf",
        ];
        assert_eq!(chosen("o/r", &files), "hf:o/r/Q6_K/m-00001-of-00002.gguf");
        assert_eq!(chosen("o/r:bf16", &files), "hf:o/r/BF16/m-00001-of-00002.gguf");
        let split = ["m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"];
        assert_eq!(chosen("o/r:Q8_0", &split), "hf:o/r/m-Q8_0-00001-of-00002.gguf");
    }

    #[test]
    fn what_cannot_be_told_apart_is_an_error_that_shows_the_way() {
        assert_eq!(
            chosen("o/r", &["small-Q4_K_M.gguf", "large-Q4_K_M.gguf"]),
            "error: hf:o/r has several models that fit (large-Q4_K_M.gguf, small-Q4_K_M.gguf): name one, as \
             hf:o/r/large-Q4_K_M.gguf"
        );
    }

    #[test]
    fn the_documentation_has_the_same_order() {
        let page = include_str!("../../../docs/models.md");
        assert!(page.replace("; then ", ", ").contains(&PREFERENCE.join(", ")));
    }

    #[test]
    fn every_format_is_found_under_its_own_name() {
        for format in PREFERENCE {
            assert_eq!(format_of(&format!("Model-1.5B-{}.gguf", format.to_lowercase())), Some(*format));
        }
        assert_eq!(format_of("Q4_K_M/m.gguf"), Some("Q4_K_M"));
        assert_eq!(format_of("m.gguf"), None);
    }
}
