//! The states of recurrent layers on the device: `[slot][row][channel]` in f32, a buffer for each layer.

use gleed_model::program::StateLayer;

use crate::launch::{Buffer, Kernels};

/// One layer's state in every slot.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LayerState {
    pub shape: StateLayer,
    pub buffer: Buffer,
}

/// Bytes of a layer's state in all slots.
pub(crate) fn layer_bytes(shape: StateLayer, slots: usize) -> u64 {
    (4 * shape.size() as u64).saturating_mul(slots as u64)
}

impl LayerState {
    pub fn new(kernels: &mut Kernels, shape: StateLayer, slots: usize) -> LayerState {
        // A step without a slot to read or write binds it all the same.
        let buffer = kernels.storage("states", layer_bytes(shape, slots.max(1)));
        LayerState { shape, buffer }
    }
}
