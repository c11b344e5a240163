//! The weights of a program: where they lie in the file, and which kernel multiplies with them.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use gleed_gguf::{Format, Gguf, Groups, Unpacked};
use gleed_model::Arithmetic;
use gleed_model::program::{Program, WeightId};

use crate::Error;
use crate::kernels::convert::{FromBf16, FromHalf};
use crate::kernels::integer::{PACK_COLUMNS, Pack};
use crate::kernels::packed::{Packing, Tiles, pack_integers, pack_scales};
use crate::kernels::pool::Pool;
use crate::kernels::shared::{BlockQueue, zeros};
use crate::kernels::tile::{Line, TILE};
use crate::kernels::unpack::Unpack;
use crate::kernels::{Isa, Kernels};
use crate::memory::{self, Large};

/// Which code multiplies with a weight, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightKernel {
    /// The tensor's name.
    pub weight: String,
    /// How the file stores it.
    pub format: Format,
    /// The kernel's name: order of operations, instruction set, and how the format is read.
    pub kernel: String,
}

/// One weight.
pub(crate) struct Weight {
    /// The index of its tensor in the file.
    tensor: usize,
    pub format: Format,
    pub experts: usize,
    /// Of one matrix.
    pub rows: usize,
    pub columns: usize,
    pub row_bytes: usize,
    /// How it splits into integer groups; `None` when it is multiplied as f32.
    pub groups: Option<Groups>,
    /// Its tiles, where it was repacked.
    packed: Option<Packed>,
}

/// A weight repacked in tiles of sixteen rows.
#[derive(Debug, Clone, Copy)]
struct Packed {
    packing: Packing,
    /// Of one matrix.
    tiles: usize,
    /// Where its `[experts][tiles][packing.lines()]` begin among all lines.
    first: usize,
}

/// All weights of a program.
pub(crate) struct Weights {
    file: Arc<Gguf>,
    weights: Vec<Weight>,
    /// Decoded vectors (norms, biases, what channels have), one entry per weight, empty for matrices.
    vectors: Vec<Vec<f32>>,
    /// The tiles of all repacked weights.
    lines: Large<Line>,
}

impl Weights {
    /// Finds and checks every weight; decodes those of `vectors`.
    pub fn new(
        file: Arc<Gguf>,
        program: &Program,
        arithmetic: Arithmetic,
        vectors: impl Iterator<Item = WeightId>,
    ) -> Result<Weights, Error> {
        let weights: Vec<Weight> =
            program.weights.iter().map(|w| find(&file, w, arithmetic)).collect::<Result<_, _>>()?;
        let vectors_of = weights.iter().map(|_| Vec::new()).collect();
        let lines = Large::zeros(0).ok_or(Error::Memory { what: "the weights" })?;
        let mut all = Weights { file, vectors: vectors_of, weights, lines };
        for id in vectors {
            all.vectors[id] = all.decoded(id);
        }
        // The values of all channels side by side, as many as each has.
        for id in program.nodes.iter().flat_map(|node| node.op.channels()) {
            let (rows, columns) = (all.weights[id].rows, all.weights[id].columns);
            let values = all.decoded(id);
            all.vectors[id] = (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect();
        }
        Ok(all)
    }

    /// All values of a small weight.
    fn decoded(&self, id: WeightId) -> Vec<f32> {
        let weight = &self.weights[id];
        let tensor = &self.file.tensors()[weight.tensor];
        let mut values = vec![0.0; weight.experts * weight.rows * weight.columns];
        // Not kept where it was made for this: it is here.
        weight.format.decode(&self.file.stretch(tensor, 0..tensor.bytes), &mut values);
        values
    }

    /// Repacks matrices that are multiplied as integers, where their format can be; the file's pages of
    /// what was packed are given back as it goes. When they would take more than `limit` bytes (or, without
    /// one, than is available) they stay in the file. `progress` is told the bytes that are done, and of how
    /// many.
    pub fn pack(
        &mut self,
        kernels: Kernels,
        pool: &mut Pool,
        matrices: &[WeightId],
        limit: Option<usize>,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Error> {
        let bytes = |weight: &Weight| weight.experts * weight.rows * weight.row_bytes;
        let columns = matrices.iter().map(|id| self.weights[*id].columns).max().unwrap_or(0);
        let scratch = (0..pool.threads()).map(|_| {
            let words = zeros::<[i32; TILE]>(columns.next_multiple_of(PACK_COLUMNS) / 4)?;
            Some(Mutex::new((UnpackedRows::new(columns)?, words)))
        });
        let scratch = scratch.collect::<Option<Vec<_>>>().ok_or(Error::Memory { what: "repacking" })?;
        let packed = self.place(matrices);
        let needed = packed.iter().map(|(id, packed)| self.lines_of(*id, *packed)).sum::<usize>();
        let limit = limit.or_else(memory::available).unwrap_or(usize::MAX);
        if needed.saturating_mul(size_of::<Line>()) > limit {
            return Ok(());
        }
        let mut lines = Large::zeros(needed).ok_or(Error::Memory { what: "the repacked weights" })?;
        let (total, mut done) = (packed.iter().map(|(id, _)| bytes(&self.weights[*id])).sum(), 0);
        for (id, Packed { packing, tiles, first }) in packed {
            let weight = &self.weights[id];
            let Some(groups) = weight.groups else { continue };
            let size = packing.lines();
            let all = weight.experts * tiles;
            let queue = BlockQueue::new(&mut lines[first..first + all * size], all, size);
            pool.run(|thread| {
                let mut scratch = scratch[thread].lock().unwrap_or_else(PoisonError::into_inner);
                let (unpacked, words) = &mut *scratch;
                let words = &mut words[..weight.columns.next_multiple_of(PACK_COLUMNS) / 4];
                while let Some(mut tile) = queue.next() {
                    let (expert, first) = (tile.index() / tiles, tile.index() % tiles * TILE);
                    let rows = self.rows(id, expert * weight.rows + first, TILE.min(weight.rows - first));
                    let tile = tile.of(0);
                    unpacked.turn(kernels, weight, groups, rows, words, |lane, row| {
                        pack_scales(packing, lane, row, tile);
                    });
                    pack_integers(packing, &words[..weight.columns / 4], tile);
                }
            });
            self.file.release(&self.file.tensors()[weight.tensor]);
            done += bytes(weight);
            self.weights[id].packed = Some(Packed { packing, tiles, first });
            progress(done, total);
        }
        self.lines = lines;
        Ok(())
    }

    /// Where the tiles of matrices that can be repacked go, one after the other.
    fn place(&self, matrices: &[WeightId]) -> Vec<(WeightId, Packed)> {
        let mut first = 0;
        let packable = matrices.iter().filter_map(|&id| {
            let weight = &self.weights[id];
            let packing = Packing::new(weight.format, weight.columns).filter(|_| weight.groups.is_some())?;
            let tiles = weight.rows.div_ceil(TILE);
            let packed = Packed { packing, tiles, first };
            first += self.lines_of(id, packed);
            Some((id, packed))
        });
        packable.collect()
    }

    /// Lines of a repacked weight.
    fn lines_of(&self, id: WeightId, packed: Packed) -> usize {
        self.weights[id].experts * packed.tiles * packed.packing.lines()
    }

    /// Whether matrices that can be repacked were not, for want of memory.
    pub fn stays_in_file(&self, matrices: &[WeightId]) -> bool {
        self.lines.is_empty() && !self.place(matrices).is_empty()
    }

    /// The tiles of a repacked weight's rows, the first of which starts a tile; `None` when it was not repacked.
    pub fn tiles(&self, id: WeightId, expert: usize, rows: Range<usize>) -> Option<Tiles<'_>> {
        let Packed { packing, first, tiles } = self.weights[id].packed?;
        let (size, before) = (packing.lines(), expert * tiles);
        let tiles = before + rows.start / TILE..before + rows.end.div_ceil(TILE);
        Some(Tiles { packing, lines: &self.lines[first + tiles.start * size..first + tiles.end * size] })
    }

    pub fn get(&self, id: WeightId) -> &Weight {
        &self.weights[id]
    }

    /// The stored bytes of one matrix.
    pub fn data(&self, id: WeightId, expert: usize) -> &[u8] {
        let rows = self.weights[id].rows;
        self.rows(id, expert * rows, rows)
    }

    /// The stored bytes of some rows, counted from the first of the first matrix.
    pub fn rows(&self, id: WeightId, first: usize, count: usize) -> &[u8] {
        let bytes = self.weights[id].row_bytes;
        let data = self.file.data(&self.file.tensors()[self.weights[id].tensor]);
        &data[first * bytes..(first + count) * bytes]
    }

    /// A vector that was decoded when the executor was made.
    pub fn vector(&self, id: WeightId) -> &[f32] {
        &self.vectors[id]
    }

    /// Bytes of the decoded vectors and the repacked matrices.
    pub fn bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().map(|v| size_of_val(&v[..])).sum();
        vectors + size_of_val(&self.lines[..])
    }
}

fn find(file: &Gguf, weight: &gleed_model::program::Weight, arithmetic: Arithmetic) -> Result<Weight, Error> {
    let gleed_model::program::Weight { ref name, experts, rows, columns, format } = *weight;
    let tensor = file
        .tensors()
        .iter()
        .position(|tensor| tensor.name == *name)
        .ok_or_else(|| Error::MissingTensor { name: name.clone() })?;
    let info = &file.tensors()[tensor];
    let differs = || Error::Tensor {
        name: name.clone(),
        expected: format!("{} rows of {columns} values of {format}", experts * rows),
        found: format!("shape {:?} of {}", info.shape, info.format),
    };
    let row_bytes = format.row_bytes(columns).map_err(|_| differs())?;
    let bytes = row_bytes.checked_mul(rows).and_then(|matrix| matrix.checked_mul(experts));
    if info.format != format || bytes != Some(info.bytes) {
        return Err(differs());
    }
    let groups = match arithmetic {
        Arithmetic::Q8 => format.groups(),
        Arithmetic::F32 | Arithmetic::F16 => None,
    };
    Ok(Weight { tensor, format, experts, rows, columns, row_bytes, groups, packed: None })
}

/// Which kernel would multiply with each matrix of a program. Nothing is loaded for the answer.
pub fn kernels_of(program: &Program, arithmetic: Arithmetic, isa: Isa) -> Vec<WeightKernel> {
    named_kernels(program, arithmetic, isa, true)
}

/// The same, given whether weights are repacked.
pub(crate) fn named_kernels(
    program: &Program,
    arithmetic: Arithmetic,
    isa: Isa,
    repacked: bool,
) -> Vec<WeightKernel> {
    linear_weights(program)
        .into_iter()
        .map(|id| {
            let weight = &program.weights[id];
            let kernel =
                Way::of(weight.format, weight.columns, arithmetic, repacked).name(weight.format, isa);
            WeightKernel { weight: weight.name.clone(), format: weight.format, kernel }
        })
        .collect()
}

/// The weights of linear ops, each once.
pub(crate) fn linear_weights(program: &Program) -> Vec<WeightId> {
    let mut ids: Vec<WeightId> = program.nodes.iter().flat_map(|node| node.op.matrices()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// A way to multiply with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As integers, repacked.
    Packed,
    /// As integers that are unpacked from the file.
    FromFile,
    /// As floats that the vector unit loads.
    Floats,
    /// As floats that are decoded one by one first.
    PlainDecode,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Packed, Way::FromFile, Way::Floats, Way::PlainDecode];

    /// The way that a weight is meant to go.
    fn of(format: Format, columns: usize, arithmetic: Arithmetic, repacked: bool) -> Way {
        let integers = arithmetic == Arithmetic::Q8 && format.groups().is_some();
        match format {
            _ if integers && repacked && Packing::new(format, columns).is_some() => Way::Packed,
            _ if integers => Way::FromFile,
            Format::F32 | Format::F16 | Format::BF16 => Way::Floats,
            _ => Way::PlainDecode,
        }
    }

    /// The name of the kernel that multiplies in this way.
    pub fn name(self, format: Format, isa: Isa) -> String {
        let format = format.name().to_ascii_lowercase();
        match self {
            Way::Packed => format!("q8/{isa}/{format} packed"),
            Way::FromFile => format!("q8/{isa}/{format} from the file"),
            Way::Floats => format!("f32/{isa}/{format}"),
            Way::PlainDecode => format!("f32/{isa}/{format} by plain decode"),
        }
    }
}

/// Up to sixteen rows of a weight, unpacked one after the other.
pub(crate) struct UnpackedRows {
    /// `[TILE][stride]`, four columns to a word.
    integers: Box<[i32]>,
    stride: usize,
    /// One row's.
    factors: Box<[i8]>,
    scales: Box<[f32]>,
    min_factors: Box<[i8]>,
    mins: Box<[f32]>,
}

impl UnpackedRows {
    /// Room for rows of at most `columns` columns.
    pub fn new(columns: usize) -> Option<UnpackedRows> {
        // A little more than the columns: rows at a distance of a power of two would compete for the same
        // places of the innermost cache.
        let stride = (columns.next_multiple_of(PACK_COLUMNS) + PACK_COLUMNS) / 4;
        Some(UnpackedRows {
            integers: zeros(TILE * stride)?,
            stride,
            factors: zeros(columns / 16)?,
            scales: zeros(columns / 32)?,
            min_factors: zeros(columns / 16)?,
            mins: zeros(columns / 32)?,
        })
    }

    /// Unpacks rows of a weight (at most sixteen), calls `f` with each row's scales, and turns the integers
    /// into words with a lane per row: `[columns / 4, rounded up to sixteen][TILE]`. The lanes of missing rows
    /// hold what was there before.
    pub fn turn(
        &mut self,
        kernels: Kernels,
        weight: &Weight,
        groups: Groups,
        rows: &[u8],
        words: &mut [[i32; TILE]],
        mut f: impl FnMut(usize, &Unpacked),
    ) {
        let UnpackedRows { integers, stride, factors, scales, min_factors, mins } = self;
        let (count, blocks) = (weight.columns / groups.len, weight.columns / groups.block);
        for (lane, bytes) in rows.chunks_exact(weight.row_bytes).enumerate() {
            let row = &mut bytemuck::cast_slice_mut(integers)[lane * *stride * 4..][..weight.columns];
            let mut room = Unpacked {
                integers: row,
                factors: &mut factors[..count],
                scales: &mut scales[..blocks],
                min_factors: &mut min_factors[..if groups.mins { count } else { 0 }],
                mins: &mut mins[..if groups.mins { blocks } else { 0 }],
            };
            kernels.run(Unpack { format: weight.format, bytes, out: room.reborrow() });
            f(lane, &room);
        }
        kernels.run(Pack { rows: integers, stride: *stride, out: words });
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.integers[..])
            + size_of_val(&self.factors[..])
            + size_of_val(&self.scales[..])
            + size_of_val(&self.min_factors[..])
            + size_of_val(&self.mins[..])
    }
}

/// Values as they lie in the file; `None` when a file does not align them, or the machine has another order of bytes.
pub(crate) fn as_stored<T: Pod>(bytes: &[u8]) -> Option<&[T]> {
    if cfg!(target_endian = "little") { bytemuck::try_cast_slice(bytes).ok() } else { None }
}

/// Decodes whole rows. Returns how.
pub(crate) fn decode(kernels: Kernels, format: Format, bytes: &[u8], out: &mut [f32]) -> Way {
    match format {
        Format::F32 if let Some(x) = as_stored(bytes) => out.copy_from_slice(x),
        Format::F16 if let Some(x) = as_stored(bytes) => kernels.run(FromHalf { x, out }),
        Format::BF16 if let Some(x) = as_stored(bytes) => kernels.run(FromBf16 { x, out }),
        _ => {
            format.decode(bytes, out);
            return Way::PlainDecode;
        }
    }
    Way::Floats
}
