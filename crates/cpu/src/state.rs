//! The states of recurrent layers: slots of memory, cut into blocks of sixteen channels, so that a thread reads and
//! writes one stretch of memory for the channels that it computes.

use gleed_model::arithmetic::LANES;
use gleed_model::program::StateLayer;

use crate::kernels::shared::BlockQueue;
use crate::memory::Large;

/// One layer's state in every slot: `[slot][channel / 16][row][16]`.
pub(crate) struct StateMemory {
    memory: Large<[f32; LANES]>,
    rows: usize,
    blocks: usize,
}

impl StateMemory {
    /// `slots` slots, whose memory the system provides when it is first used; `None` when it refuses.
    pub fn new(layer: StateLayer, slots: usize) -> Option<StateMemory> {
        let blocks = layer.columns.div_ceil(LANES);
        let vectors = layer.rows.checked_mul(blocks)?.checked_mul(slots)?;
        Some(StateMemory { memory: Large::zeros(vectors)?, rows: layer.rows, blocks })
    }

    /// Bytes of one slot of a layer.
    pub fn slot_bytes(layer: StateLayer) -> usize {
        layer.columns.div_ceil(LANES).saturating_mul(layer.rows).saturating_mul(size_of::<[f32; LANES]>())
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.memory[..])
    }

    /// Vectors of one block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Hands out the blocks, each with its part of every slot.
    pub fn split_blocks(&mut self) -> BlockQueue<'_, [f32; LANES]> {
        BlockQueue::new(&mut self.memory, self.blocks, self.rows)
    }
}
