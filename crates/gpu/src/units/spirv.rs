//! Kernels that WGSL cannot express: those that look at elements of matrices.
//!
//! Their WGSL has [`FRAGMENTS`], functions of which only the types count. The kernel is translated to SPIR-V by naga, as
//! wgpu would do itself; then the bodies of these functions are replaced. Only Vulkan takes such kernels.

use std::ops::Range;

use crate::units::fragments::FRAGMENTS;

/// The numbers of the instructions that are read or written here.
mod op {
    pub const UNDEFINED: u32 = 1;
    pub const NAME: u32 = 5;
    pub const TYPE_INT: u32 = 21;
    pub const TYPE_FLOAT: u32 = 22;
    pub const TYPE_VECTOR: u32 = 23;
    pub const TYPE_STRUCT: u32 = 30;
    pub const CONSTANT: u32 = 43;
    pub const FUNCTION: u32 = 54;
    pub const PARAMETER: u32 = 55;
    pub const FUNCTION_END: u32 = 56;
    pub const CONSTRUCT: u32 = 80;
    pub const EXTRACT: u32 = 81;
    pub const INSERT: u32 = 82;
    pub const BITCAST: u32 = 124;
    pub const LABEL: u32 = 248;
    pub const RETURN_VALUE: u32 = 254;
    pub const TYPE_MATRIX: u32 = 4456;
}

/// What a matrix is for, as SPIR-V numbers it.
#[derive(Debug, Clone, Copy)]
enum Use {
    Left,
    Right,
}

/// Words before the first instruction; the fourth is above all numbers that instructions give to their results.
const HEADER: usize = 5;
const BOUND: usize = 3;

/// Whether a kernel has something to be replaced.
pub(crate) fn is_needed(text: &str) -> bool {
    text.contains(FRAGMENTS)
}

/// A kernel in WGSL with [`FRAGMENTS`] as SPIR-V, or why it cannot be.
pub(crate) fn translate(text: &str) -> Result<Vec<u32>, String> {
    use naga::back::spv;
    use naga::valid::{Capabilities, ValidationFlags, Validator};
    let module = naga::front::wgsl::parse_str(text).map_err(|error| error.emit_to_string(text))?;
    let capabilities = Capabilities::COOPERATIVE_MATRIX
        | Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_FLOAT16_IN_FLOAT32
        | Capabilities::SUBGROUP
        | Capabilities::SUBGROUP_BARRIER;
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|error| error.emit_to_string(text))?;
    let unchecked = naga::proc::BoundsCheckPolicy::Unchecked;
    let options = spv::Options {
        lang_version: (1, 6),
        // Names, by which functions are found.
        flags: spv::WriterFlags::DEBUG,
        bounds_check_policies: naga::proc::BoundsCheckPolicies {
            index: unchecked,
            buffer: unchecked,
            image_load: unchecked,
            binding_array: unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let words = spv::write_vec(&module, &info, &options, None).map_err(|error| error.to_string())?;
    with_elements(words).ok_or_else(|| "its SPIR-V is not as expected".to_string())
}

/// The module of a kernel of halves with the functions that look at elements of matrices replaced; nothing where it is not
/// as naga writes it.
fn with_elements(words: Vec<u32>) -> Option<Vec<u32>> {
    let mut module = Module { words };
    let word = module.number_of(op::TYPE_INT, |operands| operands == [32, 0])?;
    let [half, float] = [16, 32].map(|bits| module.number_of(op::TYPE_FLOAT, |operands| operands == [bits]));
    let (half, float) = (half?, float?);
    let two_halves = module.kind(op::FUNCTION, op::TYPE_VECTOR, &[half, 2])?;
    let four = module.kind(op::FUNCTION, op::TYPE_VECTOR, &[float, 4])?;
    let eight = module.number_of(op::TYPE_STRUCT, |operands| operands == [four, four])?;
    let [left, right] = [Use::Left, Use::Right].map(|used| module.matrix(word, used).map(|at| at.start + 1));
    let (left, right) = (module.words[left?], module.words[right?]);
    module.replace("left_of", |body, parameters| {
        let elements: Vec<u32> =
            parameters.iter().flat_map(|four| body.elements(half, *four, 0..4)).collect();
        Some(body.matrix(left, &elements))
    })?;
    module.replace("right_of", |body, parameters| {
        let words: Vec<u32> = parameters.iter().flat_map(|two| body.elements(word, *two, 0..2)).collect();
        let mut elements = Vec::new();
        for word in words {
            let [both] = body.numbers();
            body.put(op::BITCAST, &[two_halves, both, word]);
            elements.extend(body.elements(half, both, 0..2));
        }
        Some(body.matrix(right, &elements))
    })?;
    module.replace("sums_of", |body, parameters| {
        let [sums] = *parameters else { return None };
        let halves = [0..4, 4..8].map(|range| {
            let elements = body.elements(float, sums, range);
            let [half] = body.numbers();
            body.put(op::CONSTRUCT, &[&[four, half], &elements[..]].concat());
            half
        });
        let [result] = body.numbers();
        body.put(op::CONSTRUCT, &[&[eight, result], &halves[..]].concat());
        Some(result)
    })?;
    module.replace("halves_of", |body, parameters| {
        let [bits] = *parameters else { return None };
        let [result] = body.numbers();
        body.put(op::BITCAST, &[two_halves, result, bits]);
        Some(result)
    })?;
    Some(module.words)
}

/// A module of SPIR-V.
struct Module {
    words: Vec<u32>,
}

/// The instructions of a new body.
struct Body {
    words: Vec<u32>,
    bound: u32,
}

impl Body {
    /// A number for a result.
    fn number(&mut self) -> u32 {
        self.bound += 1;
        self.bound - 1
    }

    fn numbers<const N: usize>(&mut self) -> [u32; N] {
        [(); N].map(|()| self.number())
    }

    fn put(&mut self, op: u32, operands: &[u32]) {
        self.words.push((operands.len() as u32 + 1) << 16 | op);
        self.words.extend(operands);
    }

    /// Elements of a vector or of what a lane has of a matrix.
    fn elements(&mut self, kind: u32, of: u32, range: Range<u32>) -> Vec<u32> {
        let element = |index| {
            let number = self.number();
            self.put(op::EXTRACT, &[kind, number, of, index]);
            number
        };
        range.map(element).collect()
    }

    /// A matrix of which a lane has these elements.
    fn matrix(&mut self, kind: u32, elements: &[u32]) -> u32 {
        let mut matrix = self.number();
        self.put(op::UNDEFINED, &[kind, matrix]);
        for (element, index) in elements.iter().zip(0..) {
            let with = self.number();
            self.put(op::INSERT, &[kind, with, *element, matrix, index]);
            matrix = with;
        }
        matrix
    }
}

impl Module {
    /// The instructions: the number of each and its words.
    fn instructions(&self) -> impl Iterator<Item = (u32, Range<usize>)> {
        let mut at = HEADER;
        std::iter::from_fn(move || {
            let first = *self.words.get(at)?;
            let end = at + (first >> 16).max(1) as usize;
            let range = at..end.min(self.words.len());
            at = end;
            Some((first & 0xffff, range))
        })
    }

    /// The first instruction of this kind whose operands are as asked for.
    fn find(&self, op: u32, is: impl Fn(&[u32]) -> bool) -> Option<Range<usize>> {
        let mut all = self.instructions();
        let found = all.find(|(found, range)| *found == op && is(&self.words[range.start + 1..range.end]));
        found.map(|(_, range)| range)
    }

    /// The number of the first type, import or name of this kind whose further operands are as asked for.
    fn number_of(&self, op: u32, is: impl Fn(&[u32]) -> bool) -> Option<u32> {
        self.find(op, |operands| is(&operands[1..])).map(|range| self.words[range.start + 1])
    }

    /// The number of what has this name.
    fn named(&self, wanted: &str) -> Option<u32> {
        self.number_of(op::NAME, |operands| name(operands) == wanted)
    }

    /// Where the type of matrices for this use is declared, and what it is for is a constant of this type.
    fn matrix(&self, word: u32, used: Use) -> Option<Range<usize>> {
        let is = |operands: &[u32]| operands[0] == word && operands[2..] == [used as u32];
        let used = self.words[self.find(op::CONSTANT, is)?.start + 2];
        self.find(op::TYPE_MATRIX, |operands| operands[5] == used)
    }

    /// The number of a type that is there, or else is declared before the first instruction of a kind.
    fn kind(&mut self, before: u32, op: u32, operands: &[u32]) -> Option<u32> {
        if let Some(number) = self.number_of(op, |found| found == operands) {
            return Some(number);
        }
        self.insert(before, |number| [&[(operands.len() as u32 + 2) << 16 | op, number], operands].concat())
    }

    /// Inserts an instruction with a new number before the first one of a kind.
    fn insert(&mut self, before: u32, make: impl Fn(u32) -> Vec<u32>) -> Option<u32> {
        let at = self.find(before, |_| true)?.start;
        let number = self.words[BOUND];
        self.words[BOUND] += 1;
        self.words.splice(at..at, make(number));
        Some(number)
    }

    /// Replaces the body of the function of this name; `make` is given its parameters and returns the number of its
    /// result.
    fn replace(&mut self, function: &str, make: impl Fn(&mut Body, &[u32]) -> Option<u32>) -> Option<()> {
        let number = self.named(function)?;
        let start = self.find(op::FUNCTION, |operands| operands[1] == number)?;
        let within = || self.instructions().skip_while(|(_, range)| range.start < start.end);
        let parameters: Vec<u32> = within()
            .take_while(|(op, _)| *op == op::PARAMETER)
            .map(|(_, range)| self.words[range.start + 2])
            .collect();
        let label = within().find(|(op, _)| *op == op::LABEL)?.1;
        let end = within().find(|(op, _)| *op == op::FUNCTION_END)?.1;
        let mut body = Body { words: vec![], bound: self.words[BOUND] };
        let result = make(&mut body, &parameters)?;
        body.put(op::RETURN_VALUE, &[result]);
        self.words[BOUND] = body.bound;
        self.words.splice(label.end..end.start, body.words);
        Some(())
    }
}

/// A string of an instruction.
fn name(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<_>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::{Combination, HalfLayout, InputKind, Layout, LinearSpec, Tiling, source};
    use crate::units::fragments::{Fragments, Room, UNITS_ENABLED};
    use gleed_gguf::Format;
    use gleed_model::program::Activation;

    fn room() -> Room {
        Fragments::Lanes.room(48 << 10, 1024)
    }

    /// Every number is given to one result, below the bound.
    #[test]
    fn numbers_are_given_once() {
        let first = (Layout::Halves(HalfLayout::of(Format::Q2_K)), false);
        let input = InputKind::Halves(36);
        let spec = LinearSpec { first, second: None, input, normed: true, requantizes: false, known: None };
        let words = translate(&source(spec, Tiling::halves(36, room())[0])).unwrap();
        let bound = words[BOUND];
        let module = Module { words };
        let mut given = std::collections::HashSet::new();
        for (op, range) in module.instructions() {
            let operands = &module.words[range.start + 1..range.end];
            let result = match op {
                op::TYPE_INT | op::TYPE_FLOAT | op::TYPE_VECTOR | op::TYPE_STRUCT | op::TYPE_MATRIX => {
                    operands[0]
                }
                op::UNDEFINED | op::CONSTANT | op::EXTRACT | op::CONSTRUCT | op::INSERT | op::BITCAST => {
                    operands[1]
                }
                _ => continue,
            };
            assert!(result < bound && given.insert(result), "{op} gives {result} again");
        }
    }

    #[test]
    fn every_kernel_of_halves_is_completed() {
        for format in Format::all() {
            let first = (Layout::Halves(HalfLayout::of(format)), false);
            let gated = Some((first, Combination::Gated(Activation::Silu)));
            for (second, tiling) in [None, gated].into_iter().zip(Tiling::halves(36, room())) {
                let input = InputKind::Halves(36);
                let spec = LinearSpec { first, second, input, normed: true, requantizes: false, known: None };
                let words =
                    translate(&source(spec, tiling)).unwrap_or_else(|error| panic!("{format}: {error}"));
                let module = Module { words };
                let inserted = module.instructions().filter(|(op, _)| *op == op::INSERT).count();
                assert_eq!(inserted, 16, "both functions put eight elements into a matrix");
            }
        }
    }

    #[test]
    fn kernels_that_ask_the_device_are_completed() {
        for (size, kernel) in [
            ("STEPS", include_str!("../limits/units.wgsl")),
            ("QUESTION", include_str!("halves_places.wgsl")),
        ] {
            let text = format!("{UNITS_ENABLED}{FRAGMENTS}const {size} = 2u;\n{kernel}");
            assert_eq!(translate(&text).err(), None);
        }
    }

    #[test]
    fn a_module_without_them_is_refused() {
        let text = "enable f16;\n@compute @workgroup_size(1)\nfn main() {}";
        assert!(translate(text).is_err());
    }
}
