//! Unpacking the planes, by the words of their documentation, gives back what the formats decode to.

use gleed_model::arithmetic::{half_row, half_values};

use super::*;

/// A generator of pseudo-random words (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

fn half(bits: u32) -> f32 {
    f16::from_bits(bits as u16).to_f32()
}

/// Scale and min of a column of one row.
fn scale_and_min(scales: &[u32], kind: Scales, column: usize) -> (f32, f32) {
    let group = column / 32;
    match kind {
        Scales::Half => (half(scales[group / 2] >> (group % 2 * 16)), 0.0),
        Scales::HalfMin => (half(scales[group]), half(scales[group] >> 16)),
        Scales::Float => (f32::from_bits(scales[group]), 0.0),
        Scales::Super(factors) => {
            let words = &scales[column / 256 * 5..][..5];
            let bits = words[1 + group % 8 / 2] >> (group % 2 * 16) & 0xffff;
            let half_of_group = column % 32 / 16;
            let signed = |bits: u32| f32::from(bits as u8 as i8);
            match factors {
                Factors::Whole => (f32::from_bits(words[0]) * signed(bits), 0.0),
                Factors::WholeMin => {
                    (half(words[0]) * signed(bits & 255), half(words[0] >> 16) * signed(bits >> 8))
                }
                Factors::Halves => (half(words[0]) * signed(bits >> (8 * half_of_group)), 0.0),
                Factors::WideHalves => (f32::from_bits(words[0]) * signed(bits >> (8 * half_of_group)), 0.0),
                Factors::HalvesMin => {
                    let byte = bits >> (8 * half_of_group);
                    (half(words[0]) * signed(byte & 15), half(words[0] >> 16) * signed(byte >> 4 & 15))
                }
            }
        }
    }
}

/// One row, from its words.
fn unpack(layout: Layout, columns: usize, low: &[u32], rest: &[u32]) -> Vec<f32> {
    let value = |column: usize| match layout {
        Layout::F32 => f32::from_bits(low[column]),
        Layout::F16 => half(low[column / 2] >> (column % 2 * 16)),
        Layout::Bf16 => f32::from_bits(low[column / 2] >> (column % 2 * 16) << 16),
        Layout::Halves(_) => unreachable!("they have a test of their own"),
        Layout::Integers(integers) => {
            let (bits, extra_bits) = (integers.low_bits as usize, integers.extra_bits as usize);
            // Quad q of the row has byte `column % 4` of its word, and 8 / bits quads share a word.
            let (quad, byte) = (column / 4, 8 * (column % 4));
            let of = |bits: usize, words: &[u32]| {
                words[quad * bits / 8] >> (byte + quad * bits % 8) & ((1 << bits) - 1)
            };
            let mut stored = of(bits, low);
            if extra_bits > 0 {
                stored |= of(extra_bits, rest) << bits;
            }
            let integer = (stored as i32 - integers.offset as i32) as f32;
            let scales = &rest[columns / 32 * extra_bits..];
            let (scale, min) = scale_and_min(scales, integers.scales, column);
            if integers.scales.mins() { scale * integer + min } else { scale * integer }
        }
    };
    (0..columns).map(value).collect()
}

/// The words of a row of a plane whose rows are interleaved in vectors of `vector` words.
fn apart(plane: &[u32], together: usize, len: usize, vector: usize, row: usize) -> Vec<u32> {
    let tile = &plane[row / together * together * len..];
    (0..len).map(|i| tile[(i / vector * together + row % together) * vector + i % vector]).collect()
}

/// Both planes of a row, as if it lay by itself.
fn row_of(packing: &Packing, packed: &Packed, row: usize) -> [Vec<u32>; 2] {
    let together = if let Layout::Integers(_) = packing.layout { 32 } else { 1 };
    let vector = packing.layout.low_words().min(4);
    [
        apart(&packed.low, together, packing.low_row(), vector, row),
        apart(&packed.rest, together, packing.rest_row(), 1, row),
    ]
}

#[test]
fn every_format_comes_back_bit_for_bit() {
    let mut random = Random(7);
    for format in Format::all() {
        for columns in [256, 512, 2304] {
            let rows = 37;
            let bytes = rows * format.row_bytes(columns).unwrap();
            let file: Vec<u8> = (0..bytes).map(|_| random.next() as u8).collect();
            let packing = Packing::new("w", format, rows, columns).unwrap();
            let packed = packing.pack(&file.chunks(packing.file_row()).collect::<Vec<_>>());
            let mut truth = vec![0.0; rows * columns];
            format.decode(&file, &mut truth);
            for (row, truth) in truth.chunks(columns).enumerate() {
                let [low, rest] = row_of(&packing, &packed, row);
                for (column, (value, truth)) in
                    unpack(packing.layout, columns, &low, &rest).iter().zip(truth).enumerate()
                {
                    let same = value.to_bits() == truth.to_bits() || value.is_nan() && truth.is_nan();
                    assert!(same, "{format} row {row} column {column}: {value} is not {truth}");
                }
            }
        }
    }
}

#[test]
fn rows_that_are_no_multiple_of_32_or_64_are_padded() {
    for (format, columns) in [(Format::F32, 33), (Format::F16, 7), (Format::BF16, 45), (Format::Q4_0, 96)] {
        let bytes = format.row_bytes(columns).unwrap();
        let file: Vec<u8> = (0..3 * bytes).map(|i| (i * 37 % 120) as u8).collect();
        let packing = Packing::new("w", format, 3, columns).unwrap();
        let packed = packing.pack(&file.chunks(bytes).collect::<Vec<_>>());
        let mut truth = vec![0.0; 3 * columns];
        format.decode(&file, &mut truth);
        for (row, truth) in truth.chunks(columns).enumerate() {
            let [low, rest] = row_of(&packing, &packed, row);
            assert_eq!(unpack(packing.layout, columns, &low, &rest), truth, "{format}");
        }
    }
}

#[test]
fn parts_are_the_parts_of_the_whole_whatever_the_threads() {
    let mut random = Random(3);
    let (rows, columns) = (1100, 1024);
    let file: Vec<u8> = (0..rows * 576).map(|_| random.next() as u8).collect();
    let packing = Packing::new("w", Format::Q4_K, rows, columns).unwrap();
    let file: Vec<&[u8]> = file.chunks(packing.file_row()).collect();
    let whole = packing.pack(&file);
    for part in [0..1, 3..700, 1099..1100, 5..5] {
        let packed = packing.pack(&file[part.clone()]);
        for row in part.clone() {
            assert_eq!(row_of(&packing, &packed, row - part.start), row_of(&packing, &whole, row));
        }
    }
}

#[test]
fn native_formats_take_about_the_size_of_their_file_and_others_say_so() {
    for format in Format::all() {
        let packing = Packing::new("w", format, 32, 2048).unwrap();
        let file = 32 * format.row_bytes(2048).unwrap() as u64;
        if packing.converted() {
            assert!(Layout::of(format).1);
        } else {
            assert!(packing.bytes() * 100 <= file * 106, "{format}: {} for {file}", packing.bytes());
        }
    }
    assert!(!Packing::new("w", Format::Q6_K, 1, 256).unwrap().converted());
    assert!(Packing::new("w", Format::IQ2_XXS, 1, 256).unwrap().converted());
    let error = Packing::new("blk.0.w", Format::Q4_K, 1, 300).unwrap_err().to_string();
    assert!(error.contains("blk.0.w") && error.contains("256"), "{error}");
}

/// What a lane of a subgroup reads of a row, by the words of the layout's documentation.
fn of_lanes(layout: HalfLayout, groups: usize, low: &[u32], rest: &[u32], row: usize, column: usize) -> f32 {
    let (tile, first, side) = (row / 16, row % 8, row % 16 / 8);
    let (group, lane, pair, upper) = (column / 32, column % 32 / 8, column % 8 / 2, column % 2);
    let word = |plane: &[u32], vector: usize| plane[((vector * 8 + first) * 4 + lane) * 2 + side];
    let bits_of = |plane: &[u32], bits: usize| match bits {
        1 => word(plane, group / 4) >> (group % 4 * 4 + pair + 16 * upper) & 1,
        2 => word(plane, group / 2) >> (group % 2 * 8 + 2 * pair + 16 * upper) & 3,
        4 => word(plane, group) >> ([0, 8, 4, 12][pair] + 16 * upper) & 15,
        8 => word(plane, group * 2 + pair / 2) >> (pair % 2 * 8 + 16 * upper) & 255,
        _ => word(plane, group * 4 + pair) >> (16 * upper) & 0xffff,
    };
    let (low_bits, extra_bits) = (layout.low_bits as usize, layout.extra_bits as usize);
    let rest_words = layout.rest_words(groups);
    let low = &low[tile * 16 * groups * low_bits..];
    let rest = &rest[tile * 16 * rest_words..];
    let scale_word = |word: usize| rest[(groups * extra_bits + word) * 16 + first * 2 + side];
    let factor = f32::from_bits(rest[(rest_words - 1) * 16 + first * 2 + side]);
    let Some(terms) = layout.terms else { return half(bits_of(low, 16)) * factor };
    let extra = if extra_bits > 0 { bits_of(rest, extra_bits) } else { 0 };
    let integer = (bits_of(low, low_bits) | extra << low_bits) as f32;
    let half_of_group = column % 32 / 16;
    let place = if terms.halves { 2 * group + half_of_group } else { group };
    if terms.mins {
        let both = scale_word(place);
        return integer.mul_add(half(both) / (1 << 24) as f32, half(both >> 16)) * factor;
    }
    (integer - layout.offset as f32) * half(scale_word(place / 2) >> (place % 2 * 16)) * factor
}

/// In the layout for matrix units, lanes find the columns that they are said to have.
#[test]
fn lanes_find_their_columns() {
    let mut random = Random(77);
    for format in Format::all() {
        let columns = if format.block_len() == 1 { 70 } else { format.block_len() * 5 };
        let rows = 35;
        let packing = Packing::new("w", format, rows, columns).unwrap().for_halves();
        let Layout::Halves(layout) = packing.layout() else { unreachable!("packed for halves") };
        let files: Vec<Vec<u8>> = (0..rows).map(|_| moderate_row(&mut random, format, columns)).collect();
        let packed = packing.pack(&files.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for (r, file) in files.iter().enumerate() {
            let expected = match format.groups() {
                Some(groups) => {
                    let mut room = Room::new(Some(groups), columns);
                    format.unpack(file, room.unpacked());
                    half_values(room.row(groups))
                }
                None => {
                    let mut values = vec![0.0; columns];
                    format.decode(file, &mut values);
                    let row = half_row(&values);
                    row.values.iter().map(|value| value.to_f32() * row.factor).collect()
                }
            };
            for (column, expected) in expected.iter().enumerate() {
                let found = of_lanes(layout, packing.groups(), &packed.low, &packed.rest, r, column);
                assert_eq!(found.to_bits(), expected.to_bits(), "{format}, row {r}, column {column}");
            }
            for column in columns..packing.groups() * 32 {
                let found = of_lanes(layout, packing.groups(), &packed.low, &packed.rest, r, column);
                assert!(
                    found == 0.0 || layout.terms.is_some_and(|t| !t.mins),
                    "{format}: padding is {found}"
                );
            }
        }
    }
}

/// A row of random blocks whose values are finite.
fn moderate_row(random: &mut Random, format: Format, columns: usize) -> Vec<u8> {
    let mut values = vec![0.0; format.block_len()];
    let blocks = (0..columns / format.block_len()).flat_map(|_| {
        loop {
            let bytes: Vec<u8> = (0..format.block_bytes()).map(|_| random.next() as u8).collect();
            format.decode(&bytes, &mut values);
            if values.iter().all(|v| v.abs() < 1e30) {
                break bytes;
            }
        }
    });
    blocks.collect()
}
