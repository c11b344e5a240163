//! Which adapters a sequence is computed with: from its first token to its last, because the keys and values of all its
//! tokens are theirs.

use gleed_model::Batch;

use crate::{Error, Result};

/// How much of each adapter of the model a sequence takes: as much as the model says, unless it says so itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Adapters {
    /// The bits of a number for each adapter: sequences that take others have nothing in common.
    scales: Option<Vec<u32>>,
}

impl Adapters {
    /// These scales, one for each adapter.
    pub fn of(scales: &[f32]) -> Adapters {
        // Zero is zero, whatever its sign.
        Adapters { scales: Some(scales.iter().map(|scale| (scale + 0.0).to_bits()).collect()) }
    }

    /// Refuses scales of other adapters than a model has.
    pub(crate) fn must_fit(&self, adapters: usize) -> Result<()> {
        let Some(scales) = &self.scales else { return Ok(()) };
        if scales.len() != adapters {
            return Err(Error::Adapters { scales: scales.len(), adapters });
        }
        match scales.iter().map(|bits| f32::from_bits(*bits)).find(|scale| !scale.is_finite()) {
            Some(scale) => Err(Error::AdapterScale { scale }),
            None => Ok(()),
        }
    }

    /// Tells a batch how much the rows of a table take.
    pub(crate) fn tell(&self, batch: &mut Batch, table: u32) {
        if let Some(scales) = &self.scales {
            let scales: Vec<f32> = scales.iter().map(|bits| f32::from_bits(*bits)).collect();
            batch.adapt(table, &scales);
        }
    }
}
