//! The KV cache: pages of 64 positions, in a page one block for each head, in f32, f16 or int8.
//!
//! Keys and values are vectors of sixteen, laid out as attention reads them: a vector of keys is sixteen
//! positions of one dimension, `[position / 16][dim][16]`; a vector of values is sixteen columns of one
//! position, `[position][dim / 16][16]`, the last one filled up with zeros.

use gleed_model::KvType;
use gleed_model::arithmetic::{BLOCK, LANES, PAGE};
use gleed_model::program::KvLayer;

use crate::kernels::Kernels;
use crate::kernels::attention::Page;
use crate::kernels::convert::{FromHalf, ToBlocks, ToHalf};
use crate::kernels::many::{LayKeys, LayValues};
use crate::kernels::shared::BlockQueue;
use crate::memory::Large;

/// The keys and values of one layer.
pub(crate) struct LayerCache {
    /// The page group that its pages are of.
    pub group: usize,
    pub keys: Side,
    pub values: Side,
}

/// The keys, or the values, of one layer.
pub(crate) struct Side {
    slots: Slots,
    heads: usize,
    /// `[page][head]` blocks of [`Slots::words`] words, which begin at a cache line.
    memory: Large<u64>,
}

/// How one head's part of a page is stored: the vectors, and for int8 then the scales in f16, of keys
/// `[position / 16][dim / 32][16]`, of values `[position][dim / 32]`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    kind: KvType,
    order: Lanes,
    pub dim: usize,
}

/// What the sixteen numbers of a vector are.
#[derive(Debug, Clone, Copy)]
enum Lanes {
    Positions,
    Columns,
}

impl LayerCache {
    /// A layer's cache of `pages` pages of a group; `None` when memory does not suffice.
    pub fn new(layer: KvLayer, kind: KvType, group: usize, pages: usize) -> Option<LayerCache> {
        let side = |order: Lanes, dim: usize| {
            let slots = Slots { kind, order, dim };
            let words = slots.words().checked_mul(layer.heads)?.checked_mul(pages)?;
            Some(Side { slots, heads: layer.heads, memory: Large::zeros(words)? })
        };
        Some(LayerCache {
            group,
            keys: side(Lanes::Positions, layer.key_dim)?,
            values: side(Lanes::Columns, layer.value_dim)?,
        })
    }

    /// Bytes of one page of a layer's keys and values.
    pub fn page_bytes(layer: KvLayer, kind: KvType) -> usize {
        let sides = [(Lanes::Positions, layer.key_dim), (Lanes::Columns, layer.value_dim)];
        let words = sides.map(|(order, dim)| Slots { kind, order, dim }.words());
        words.into_iter().sum::<usize>().saturating_mul(layer.heads * size_of::<u64>())
    }

    pub fn bytes(&self) -> usize {
        [&self.keys, &self.values].map(|side| size_of_val(&side.memory[..])).iter().sum()
    }

    pub fn copy_page(&mut self, from: usize, to: usize) {
        for side in [&mut self.keys, &mut self.values] {
            let page = side.heads * side.slots.words();
            side.memory.copy_within(from * page..(from + 1) * page, to * page);
        }
    }
}

impl Side {
    /// The size of a head.
    pub fn dim(&self) -> usize {
        self.slots.dim
    }

    /// Hands out the heads, each to one thread, to be written with [`Slots::put`].
    pub fn split_heads(&mut self) -> (Slots, BlockQueue<'_, u64>) {
        (self.slots, BlockQueue::new(&mut self.memory, self.heads, self.slots.words()))
    }

    /// Where the first `count` positions of one head's part of a page are stored (or some more of it).
    pub fn stored(&self, page: usize, head: usize, count: usize) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(self.block(page, head));
        // Only a whole page ends with all its scales.
        let used = self.slots.used(count) * bytes.len() / self.slots.vectors();
        &bytes[..used]
    }

    /// One head's part of a page.
    fn block(&self, page: usize, head: usize) -> &[u64] {
        let words = self.slots.words();
        &self.memory[(page * self.heads + head) * words..][..words]
    }

    /// One head's part of a page, of which the first `count` positions will be used; scales go to
    /// `scales`.
    pub fn page<'a>(
        &'a self,
        kernels: Kernels,
        page: usize,
        head: usize,
        count: usize,
        scales: &'a mut [f32],
    ) -> Page<'a> {
        let block = self.block(page, head);
        match self.slots.kind {
            KvType::F32 => Page::F32(bytemuck::cast_slice(block)),
            KvType::F16 => Page::F16(bytemuck::cast_slice(block)),
            KvType::Q8_0 => {
                let bytes: &[u8] = bytemuck::cast_slice(block);
                let (integers, halves) = bytes.split_at(self.slots.vectors() * LANES);
                let used = count.next_multiple_of(LANES) * self.slots.dim.div_ceil(BLOCK);
                let (halves, scales) = (&bytemuck::cast_slice(halves)[..used], &mut scales[..used]);
                kernels.run(FromHalf { x: halves, out: scales });
                Page::Q8_0 { integers: bytemuck::cast_slice(integers), scales }
            }
        }
    }

    /// The first `count` positions of a page, laid out for many queries.
    pub fn lay<'a>(
        &self,
        kernels: Kernels,
        page: Page,
        count: usize,
        out: &'a mut [[f32; LANES]],
    ) -> &'a [[f32; LANES]] {
        let Slots { order, dim, .. } = self.slots;
        match order {
            Lanes::Positions => kernels.run(LayKeys { page, dim, positions: count, out }),
            Lanes::Columns => {
                kernels.run(LayValues { page, vectors: dim.div_ceil(LANES), positions: count, out });
            }
        }
        out
    }
}

impl Slots {
    /// Vectors of one head's part of a page.
    fn vectors(self) -> usize {
        self.used(PAGE)
    }

    /// Vectors that hold the first `count` positions.
    fn used(self, count: usize) -> usize {
        match self.order {
            Lanes::Positions => count.div_ceil(LANES) * self.dim,
            Lanes::Columns => count * self.dim.div_ceil(LANES),
        }
    }

    /// Words of one head's part of a page. A page has 64 positions, so it ends with a cache line.
    fn words(self) -> usize {
        let vectors = self.vectors();
        let bytes = match self.kind {
            KvType::F32 => 4 * LANES * vectors,
            KvType::F16 => 2 * LANES * vectors,
            KvType::Q8_0 => LANES * vectors + 2 * PAGE * self.dim.div_ceil(BLOCK),
        };
        bytes / size_of::<u64>()
    }

    /// Stores one head's key or value at a position of a page.
    pub fn put(self, kernels: Kernels, block: &mut [u64], position: usize, x: &[f32]) {
        let width = self.dim.next_multiple_of(LANES);
        match (self.kind, self.order) {
            (KvType::F32, Lanes::Positions) => self.put_key(bytemuck::cast_slice_mut(block), position, 0, x),
            (KvType::F16, Lanes::Positions) => {
                let mut part = [0u16; BLOCK];
                for (group, x) in x.chunks(BLOCK).enumerate() {
                    let part = &mut part[..x.len()];
                    kernels.run(ToHalf { x, out: part });
                    self.put_key(bytemuck::cast_slice_mut(block), position, group * BLOCK, part);
                }
            }
            (KvType::Q8_0, Lanes::Positions) => {
                let (integers, scales) = self.split(block);
                let groups = self.dim.div_ceil(BLOCK);
                let mut part = [0i8; BLOCK];
                for (group, x) in x.chunks(BLOCK).enumerate() {
                    let part = &mut part[..x.len()];
                    let at = (position / LANES * groups + group) * LANES + position % LANES;
                    kernels.run(ToBlocks { x, q: part, scales: &mut scales[at..=at] });
                    self.put_key(integers, position, group * BLOCK, part);
                }
            }
            (KvType::F32, Lanes::Columns) => {
                bytemuck::cast_slice_mut(block)[position * width..][..self.dim].copy_from_slice(x);
            }
            (KvType::F16, Lanes::Columns) => {
                let out = &mut bytemuck::cast_slice_mut(block)[position * width..][..self.dim];
                kernels.run(ToHalf { x, out });
            }
            (KvType::Q8_0, Lanes::Columns) => {
                let (integers, scales) = self.split(block);
                let groups = self.dim.div_ceil(BLOCK);
                let q = &mut integers[position * width..][..self.dim];
                kernels.run(ToBlocks { x, q, scales: &mut scales[position * groups..][..groups] });
            }
        }
    }

    /// Stores some dimensions of a key, from the `first` on.
    fn put_key<T: Copy>(self, block: &mut [T], position: usize, first: usize, x: &[T]) {
        let vectors = &mut block.as_chunks_mut::<LANES>().0[position / LANES * self.dim + first..];
        for (vector, x) in vectors.iter_mut().zip(x) {
            vector[position % LANES] = *x;
        }
    }

    /// Integers and scales of a block of int8.
    fn split(self, block: &mut [u64]) -> (&mut [i8], &mut [u16]) {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(block);
        let (integers, scales) = bytes.split_at_mut(self.vectors() * LANES);
        (bytemuck::cast_slice_mut(integers), bytemuck::cast_slice_mut(scales))
    }
}
