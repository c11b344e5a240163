//! The states of recurrent layers on the device: `[slot][row][channel]` in f32, a buffer for each layer.

use gleed_model::program::StateLayer;

use crate::{Gpu, Result};

/// One layer's state in every slot.
#[derive(Debug)]
pub(crate) struct LayerState {
    pub shape: StateLayer,
    pub buffer: wgpu::Buffer,
}

/// Bytes of a layer's state in all slots.
pub(crate) fn layer_bytes(shape: StateLayer, slots: usize) -> u64 {
    (4 * shape.size() as u64).saturating_mul(slots as u64)
}

impl LayerState {
    pub fn new(gpu: &Gpu, shape: StateLayer, slots: usize) -> Result<LayerState> {
        // A step without a slot to read or write binds it all the same.
        let buffer = gpu.storage("states", layer_bytes(shape, slots.max(1)))?;
        Ok(LayerState { shape, buffer })
    }
}
