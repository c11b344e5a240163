//! What the peer was built with, as far as its own words tell: its build number, which CPU variant it
//! loaded, and so which instructions it uses. A comparison with a peer that lacks some is not one.

use std::fmt;

use gleed_cpu::Isa;
use serde_json::{Value, json};

/// Instructions that matter to speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    pub avx2: bool,
    pub avx512: bool,
    /// Dot products of bytes, 512 or 256 bits wide.
    pub vnni: bool,
    pub amx: bool,
    /// ARM's dot products of bytes.
    pub dotprod: bool,
    /// ARM's products of matrices of bytes.
    pub i8mm: bool,
}

impl Units {
    /// What our kernels of an instruction set use.
    pub fn of_isa(isa: Isa) -> Units {
        let avx512 = matches!(isa, Isa::Avx512 | Isa::Amx);
        Units {
            avx2: avx512 || matches!(isa, Isa::Avx2 | Isa::AvxVnni),
            avx512,
            vnni: avx512 || isa == Isa::AvxVnni,
            amx: isa == Isa::Amx,
            dotprod: matches!(isa, Isa::Neon | Isa::NeonI8mm),
            i8mm: isa == Isa::NeonI8mm,
        }
    }

    /// What llama.cpp's CPU variant of a name uses; `None` for a name that we do not know.
    fn of_variant(name: &str) -> Option<Units> {
        let none = Units::default();
        let avx2 = Units { avx2: true, ..none };
        let avx512 = Units { avx512: true, ..avx2 };
        Some(match name {
            "x64" | "sse42" | "sandybridge" | "ivybridge" | "piledriver" => none,
            "haswell" => avx2,
            "alderlake" => Units { vnni: true, ..avx2 },
            "skylakex" | "cannonlake" => avx512,
            "cascadelake" | "icelake" | "cooperlake" | "zen4" => Units { vnni: true, ..avx512 },
            "sapphirerapids" => Units { vnni: true, amx: true, ..avx512 },
            _ => return None,
        })
    }

    /// From llama.cpp's `system_info: … | CPU : AVX2 = 1 | AVX512_VNNI = 1 | …`.
    fn of_system_info(line: &str) -> Option<Units> {
        let (_, flags) = line.split_once("CPU :")?;
        let has = |name: &str| {
            flags
                .split('|')
                .filter_map(|f| f.split_once('='))
                .any(|(n, v)| n.trim() == name && v.trim() == "1")
        };
        Some(Units {
            avx2: has("AVX2"),
            avx512: has("AVX512"),
            vnni: has("AVX512_VNNI") || has("AVX_VNNI"),
            amx: has("AMX_INT8"),
            dotprod: has("DOTPROD"),
            i8mm: has("MATMUL_INT8"),
        })
    }

    /// The names of those that are here and not in `other`.
    fn beyond(self, other: Units) -> Vec<&'static str> {
        [
            ("AVX2", self.avx2, other.avx2),
            ("AVX-512", self.avx512, other.avx512),
            ("VNNI", self.vnni, other.vnni),
            ("AMX", self.amx, other.amx),
            ("dot products", self.dotprod, other.dotprod),
            ("matrix products", self.i8mm, other.i8mm),
        ]
        .into_iter()
        .filter(|(_, here, there)| *here && !there)
        .map(|(name, _, _)| name)
        .collect()
    }
}

/// What is known of the peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Build {
    number: Option<u64>,
    commit: String,
    /// The name of the CPU library that it loaded, where it loads one.
    variant: Option<String>,
    /// The instructions that it uses, where they are known.
    pub units: Option<Units>,
    /// The threads that it ran with.
    pub threads: Option<usize>,
}

impl Build {
    /// Takes in what the JSON of llama-bench says.
    pub fn named(&mut self, number: u64, commit: &str) {
        self.number = Some(number);
        self.commit = commit.to_string();
    }

    /// Takes in what a tool wrote to stderr. What it says of its flags counts more than its name.
    pub fn said(&mut self, stderr: &str) {
        let variant = stderr.lines().find_map(|line| {
            let (_, path) = line.split_once("loaded CPU backend from ")?;
            let (_, name) = path.trim().rsplit_once("ggml-cpu-")?;
            Some(name.split('.').next().unwrap_or(name).to_string())
        });
        if let Some(variant) = variant {
            self.units = self.units.or(Units::of_variant(&variant));
            self.variant = Some(variant);
        }
        let flags =
            stderr.lines().filter(|line| line.contains("system_info")).find_map(Units::of_system_info);
        self.units = flags.or(self.units);
    }

    /// Whether the peer has said anything of itself: it ran.
    pub fn is_known(&self) -> bool {
        *self != Build::default()
    }

    /// Lines for when one side has instructions that the other lacks, or when the peer does not tell.
    pub fn warnings(&self, ours: Units, isa: &str) -> Vec<String> {
        let named = self.variant.as_ref().map(|v| format!(" (CPU variant {v})")).unwrap_or_default();
        let Some(theirs) = self.units else {
            return vec![format!(
                "the peer{named} does not say which instructions it uses: compare with care"
            )];
        };
        let mut warnings = Vec::new();
        let (lacks, more) = (ours.beyond(theirs), theirs.beyond(ours));
        if !lacks.is_empty() {
            let lacks = lacks.join(", ");
            warnings.push(format!(
                "the peer{named} runs without {lacks}, which ours uses: its native variant is faster"
            ));
        }
        if !more.is_empty() {
            let fair = if theirs.dotprod {
                "is built without".to_string()
            } else {
                let wanted = if ours.avx512 {
                    "icelake"
                } else if ours.vnni {
                    "alderlake"
                } else if ours.avx2 {
                    "haswell"
                } else {
                    "x64"
                };
                format!(
                    "is its CPU variant {wanted} (GGML_CPU={wanted} in the environment, where its start script \
                     reads that)"
                )
            };
            warnings.push(format!(
                "the peer{named} uses {}, which ours does not ({isa}): a fair peer {fair}",
                more.join(", ")
            ));
        }
        warnings
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let units = self.units.map(|u| {
            json!({
                "avx2": u.avx2, "avx512": u.avx512, "vnni": u.vnni, "amx": u.amx,
                "dotprod": u.dotprod, "i8mm": u.i8mm,
            })
        });
        json!({
            "build": self.number, "commit": self.commit, "cpu_variant": self.variant,
            "instructions": units, "threads": self.threads,
        })
    }
}

/// `llama.cpp build 11669 (Debian), CPU variant sapphirerapids`.
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("llama.cpp")?;
        if let Some(number) = self.number {
            write!(f, " build {number} ({})", self.commit)?;
        }
        match (&self.variant, self.units) {
            (Some(variant), _) => write!(f, ", CPU variant {variant}"),
            (None, Some(units)) => write!(f, ", with {}", units.beyond(Units::default()).join(", ")),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: &str = "ggml_backend_load_best: failed to enumerate /usr/lib/ggml\n\
        load_backend: loaded CPU backend from /usr/lib/ggml/libggml-cpu-haswell.so\n";
    const FLAGS: &str = "0.00.418.324 I system_info: n_threads = 2 (n_threads_batch = 2) / 2 | CPU : SSE3 = 1 | \
        AVX2 = 1 | AVX512 = 1 | AVX512_VNNI = 1 | AMX_INT8 = 1 | OPENMP = 1 | \n";

    fn build(stderr: &str) -> Build {
        let mut build = Build::default();
        build.named(11669, "Debian");
        build.said(stderr);
        build
    }

    #[test]
    fn a_loaded_library_names_the_variant() {
        let build = build(LOADED);
        assert_eq!(build.to_string(), "llama.cpp build 11669 (Debian), CPU variant haswell");
        assert_eq!(build.units, Some(Units::of_isa(Isa::Avx2)));
    }

    #[test]
    fn flags_count_more_than_the_name() {
        assert_eq!(build(&(LOADED.to_string() + FLAGS)).units, Some(Units::of_isa(Isa::Amx)));
        let built_in = build(FLAGS);
        assert_eq!(built_in.to_string(), "llama.cpp build 11669 (Debian), with AVX2, AVX-512, VNNI, AMX");
    }

    #[test]
    fn a_flag_that_is_zero_or_only_a_prefix_is_not_there() {
        let units = build("system_info: n_threads = 2 | CPU : AVX = 1 | AVX2 = 0 | AVX512_VBMI = 1 |").units;
        assert_eq!(units, Some(Units::default()));
    }

    #[test]
    fn differences_are_said_both_ways() {
        let haswell = build(LOADED);
        let [line] = &haswell.warnings(Units::of_isa(Isa::Amx), "amx")[..] else { panic!() };
        assert!(line.contains("haswell") && line.contains("without AVX-512, VNNI, AMX"), "{line}");
        assert!(haswell.warnings(Units::of_isa(Isa::Avx2), "avx2").is_empty());
        let native = build(FLAGS);
        let [line] = &native.warnings(Units::of_isa(Isa::Avx2), "avx2")[..] else { panic!() };
        assert!(line.contains("AVX-512, VNNI, AMX") && line.contains("GGML_CPU=haswell"), "{line}");
        let [line] = &native.warnings(Units::of_isa(Isa::AvxVnni), "avx-vnni")[..] else { panic!() };
        assert!(line.contains("uses AVX-512, AMX") && line.contains("GGML_CPU=alderlake"), "{line}");
        let alderlake = build(&LOADED.replace("haswell", "alderlake"));
        assert!(alderlake.warnings(Units::of_isa(Isa::AvxVnni), "avx-vnni").is_empty());
        let arm = build("system_info: n_threads = 2 | CPU : NEON = 1 | DOTPROD = 1 | MATMUL_INT8 = 1 |");
        assert!(arm.warnings(Units::of_isa(Isa::NeonI8mm), "neon-i8mm").is_empty());
        let [line] = &arm.warnings(Units::of_isa(Isa::Neon), "neon")[..] else { panic!() };
        assert!(line.contains("uses matrix products") && line.contains("built without"), "{line}");
        let [line] = &build("").warnings(Units::of_isa(Isa::Avx2), "avx2")[..] else { panic!() };
        assert!(line.contains("does not say"), "{line}");
    }
}
