//! The KV cache: pages of 64 positions, in a page `[head][position][dim]`, in f32, f16 or int8 blocks.

use gleed_model::KvType;
use gleed_model::arithmetic::{BLOCK, PAGE};
use gleed_model::program::KvLayer;

use crate::kernels::Kernels;
use crate::kernels::convert::{FromBlocks, FromHalf, ToBlocks, ToHalf};
use crate::kernels::shared::{BlockQueue, zeros};

/// The keys and values of one layer.
pub(crate) struct Layer {
    pub keys: Side,
    pub values: Side,
}

/// The keys, or the values, of one layer.
pub(crate) struct Side {
    kind: KvType,
    heads: usize,
    pub dim: usize,
    /// `[page][head]` blocks of [`block_words`] words: f32 or f16 `[position][dim]`, or for int8 the
    /// integers `[position][dim]` and then the scales `[position][dim / 32]` in f16.
    words: Box<[u64]>,
}

/// Words of one head's part of a page. A page has 64 positions, so nothing is left over.
fn block_words(kind: KvType, dim: usize) -> usize {
    PAGE * kind.bytes(dim) / size_of::<u64>()
}

impl Layer {
    /// A layer's cache of so many pages; `None` when memory does not suffice.
    pub fn new(layer: KvLayer, kind: KvType, pages: usize) -> Option<Layer> {
        let side = |dim: usize| {
            let words = block_words(kind, dim).checked_mul(layer.heads)?.checked_mul(pages)?;
            Some(Side { kind, heads: layer.heads, dim, words: zeros(words)? })
        };
        Some(Layer { keys: side(layer.key_dim)?, values: side(layer.value_dim)? })
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.keys.words[..]) + size_of_val(&self.values.words[..])
    }

    pub fn copy_page(&mut self, from: usize, to: usize) {
        for side in [&mut self.keys, &mut self.values] {
            let page = side.heads * block_words(side.kind, side.dim);
            side.words.copy_within(from * page..(from + 1) * page, to * page);
        }
    }
}

impl Side {
    /// Hands out the heads, each to one thread, to be written with [`Slots::put`].
    pub fn split_heads(&mut self) -> (Slots, BlockQueue<'_, u64>) {
        let slots = Slots { kind: self.kind, dim: self.dim };
        (slots, BlockQueue::new(&mut self.words, self.heads, block_words(self.kind, self.dim)))
    }

    /// The first `count` positions of one head's part of a page as f32, `[count][dim]`: in place, or
    /// decoded into `scratch`.
    pub fn read<'a>(
        &'a self,
        kernels: Kernels,
        page: usize,
        head: usize,
        count: usize,
        scratch: &'a mut [f32],
    ) -> &'a [f32] {
        let words = block_words(self.kind, self.dim);
        let block = &self.words[(page * self.heads + head) * words..][..words];
        let values = count * self.dim;
        let out = &mut scratch[..values];
        match self.kind {
            KvType::F32 => return &bytemuck::cast_slice(block)[..values],
            KvType::F16 => kernels.run(FromHalf { x: &bytemuck::cast_slice(block)[..values], out }),
            KvType::Q8_0 => {
                let (q, scales) = bytemuck::cast_slice::<u64, u8>(block).split_at(PAGE * self.dim);
                let (q, scales): (&[i8], &[u16]) = (bytemuck::cast_slice(q), bytemuck::cast_slice(scales));
                let blocks = self.dim.div_ceil(BLOCK);
                if self.dim.is_multiple_of(BLOCK) {
                    kernels.run(FromBlocks { q: &q[..values], scales: &scales[..count * blocks], out });
                } else {
                    // Blocks start anew at each position.
                    let positions = q.chunks(self.dim).zip(scales.chunks(blocks));
                    for ((q, scales), out) in positions.zip(out.chunks_mut(self.dim)) {
                        kernels.run(FromBlocks { q, scales, out });
                    }
                }
            }
        }
        out
    }
}

/// How one position is stored in a head's part of a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    kind: KvType,
    dim: usize,
}

impl Slots {
    /// Stores one head's key or value at a position of a page.
    pub fn put(self, kernels: Kernels, block: &mut [u64], position: usize, x: &[f32]) {
        let at = position * self.dim..(position + 1) * self.dim;
        match self.kind {
            KvType::F32 => bytemuck::cast_slice_mut::<u64, f32>(block)[at].copy_from_slice(x),
            KvType::F16 => kernels.run(ToHalf { x, out: &mut bytemuck::cast_slice_mut(block)[at] }),
            KvType::Q8_0 => {
                let (q, scales) = bytemuck::cast_slice_mut::<u64, u8>(block).split_at_mut(PAGE * self.dim);
                let blocks = self.dim.div_ceil(BLOCK);
                let scales = &mut bytemuck::cast_slice_mut(scales)[position * blocks..][..blocks];
                kernels.run(ToBlocks { x, q: &mut bytemuck::cast_slice_mut(q)[at], scales });
            }
        }
    }
}
