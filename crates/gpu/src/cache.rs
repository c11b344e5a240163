//! The KV cache on the device: pages of 64 positions, in a page one block for each head.
//!
//! A stored vector is in units of four words: 8 values in f16, 4 in f32, 16 in q8_0, the last unit filled up
//! with zeros; q8_0 has its scales apart. Keys lie `[page][head][unit][position]`, so that the threads of
//! attention, one per position, read neighbouring units; values `[page][head][position][unit]`, so that
//! those for neighbouring values do. The scales of a head follow its units: `[page][head][word][position]`
//! for keys, `[page][head][position][word]` for values. See `kernels/heads/stored_*.wgsl`.

use gleed_model::KvType;
use gleed_model::arithmetic::{BLOCK, PAGE};
use gleed_model::groups::{PageGroup, PageGroups};
use gleed_model::program::{KvLayer, Program};

use crate::Options;
use crate::launch::{Buffer, Kernels};

/// The keys and values of one layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LayerCache {
    /// The page group that its pages are of.
    pub group: usize,
    pub shape: KvLayer,
    pub kind: KvType,
    pub keys: Buffer,
    pub values: Buffer,
}

/// Values in a unit of four words.
pub(crate) fn unit(kind: KvType) -> usize {
    match kind {
        KvType::F32 => 4,
        KvType::F16 => 8,
        KvType::Q8_0 => 16,
    }
}

/// Words of a stored vector: those of its units, and those of its scales.
fn words(kind: KvType, dim: usize) -> (usize, usize) {
    let scales = match kind {
        KvType::F32 | KvType::F16 => 0,
        KvType::Q8_0 => dim.div_ceil(BLOCK).div_ceil(2),
    };
    (4 * dim.div_ceil(unit(kind)), scales)
}

/// Bytes of one page of keys, or of values, of all heads.
fn page_bytes(kind: KvType, heads: usize, dim: usize) -> u64 {
    let (units, scales) = words(kind, dim);
    (4 * heads * PAGE * (units + scales)) as u64
}

/// Bytes of the keys and of the values of one layer.
fn layer_bytes(shape: KvLayer, kind: KvType, pages: usize) -> [u64; 2] {
    [shape.key_dim, shape.value_dim]
        .map(|dim| page_bytes(kind, shape.heads, dim).saturating_mul(pages as u64))
}

impl LayerCache {
    /// `pages` pages of a group.
    pub fn new(
        kernels: &mut Kernels,
        shape: KvLayer,
        kind: KvType,
        group: usize,
        pages: usize,
    ) -> LayerCache {
        let [keys, values] = layer_bytes(shape, kind, pages);
        let (keys, values) = (kernels.storage("keys", keys), kernels.storage("values", values));
        LayerCache { group, shape, kind, keys, values }
    }

    /// Words of a stored key: those of its units, and those of its scales.
    pub fn key_words(&self) -> (usize, usize) {
        words(self.kind, self.shape.key_dim)
    }

    /// The same of a value.
    pub fn value_words(&self) -> (usize, usize) {
        words(self.kind, self.shape.value_dim)
    }

    /// Bytes of one page of keys and of one of values.
    pub fn page_bytes(&self) -> [(Buffer, u64); 2] {
        let KvLayer { heads, key_dim, value_dim } = self.shape;
        [(self.keys, key_dim), (self.values, value_dim)]
            .map(|(buffer, dim)| (buffer, page_bytes(self.kind, heads, dim)))
    }
}

/// The page groups of a program's caches, and the pages of each.
pub(crate) fn page_groups(program: &Program, options: Options) -> (PageGroups, Vec<PageGroup>) {
    let groups = PageGroups::of(program);
    let pages = groups.with_pages(options.pages, options.max_rows, options.window_sequences);
    (groups, pages)
}

/// Bytes of the keys and of the values of every layer of a program.
pub(crate) fn all_bytes(program: &Program, options: Options) -> impl Iterator<Item = u64> {
    let (groups, page_groups) = page_groups(program, options);
    let layers = program.caches.iter().enumerate();
    layers.flat_map(move |(index, layer)| {
        layer_bytes(*layer, options.kv, page_groups[groups.of_cache(index)].pages)
    })
}

/// Bytes of the largest page of all layers.
pub(crate) fn largest_page(layers: &[KvLayer], kind: KvType) -> u64 {
    let bytes = |layer: &KvLayer| {
        [layer.key_dim, layer.value_dim].map(|dim| page_bytes(kind, layer.heads, dim)).into_iter().max()
    };
    layers.iter().filter_map(bytes).max().unwrap_or(4)
}
