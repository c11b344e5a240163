//! The adapters of a model: how much of each answers take, by request or by what was said last for all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gleed_engine::{AdapterInfo, Adapters};
use serde_json::{Value, json};

use crate::api::fields::Field;
use crate::errors::Problem;

/// How much of one adapter is wished for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdapterWish {
    id: usize,
    scale: f32,
}

impl AdapterWish {
    /// Reads a list of adapters and scales, each adapter once, as llama-server has it.
    pub fn read(field: Field) -> Result<Vec<AdapterWish>, Problem> {
        let mut wishes: Vec<AdapterWish> = Vec::new();
        for entry in field.list()? {
            let path = format!("{}.id", entry.path);
            let mut fields = entry.object()?;
            let id = fields.require("id")?.integer(0..=i64::from(u32::MAX))? as usize;
            let scale = fields.require("scale")?.number(f32::MIN..=f32::MAX)?;
            fields.finish()?;
            if wishes.iter().any(|wish| wish.id == id) {
                return Err(Problem::invalid(path, format!("adapter {id} is there twice")));
            }
            wishes.push(AdapterWish { id, scale });
        }
        Ok(wishes)
    }
}

/// The adapters of a model and how much of each answers take that do not say.
pub struct AdapterScales {
    adapters: Vec<AdapterInfo>,
    scales: Mutex<Vec<f32>>,
}

impl AdapterScales {
    /// As the command line says.
    pub fn new(adapters: &[AdapterInfo]) -> AdapterScales {
        let scales = Mutex::new(adapters.iter().map(|adapter| adapter.scale).collect());
        AdapterScales { adapters: adapters.to_vec(), scales }
    }

    /// What an answer takes: those that are wished for and no others, or what was said for all.
    pub fn taken(&self, wishes: Option<&[AdapterWish]>) -> Result<Adapters, Problem> {
        match wishes {
            Some(wishes) => Ok(Adapters::of(&self.wished(wishes)?)),
            None if self.adapters.is_empty() => Ok(Adapters::default()),
            None => Ok(Adapters::of(&self.scales())),
        }
    }

    /// Says what all answers take from now on that do not say themselves; nothing of those that are not named.
    pub fn set(&self, wishes: &[AdapterWish]) -> Result<(), Problem> {
        *self.scales() = self.wished(wishes)?;
        Ok(())
    }

    /// All of them, as llama-server lists them: by the names of their files, whose folders are the operator's business.
    pub fn list(&self) -> Value {
        let listed = |(id, (adapter, scale)): (usize, (&AdapterInfo, &f32))| {
            let file = adapter.name.rsplit(['/', '\\']).next();
            json!({ "id": id, "path": file, "scale": scale })
        };
        self.adapters.iter().zip(&*self.scales()).enumerate().map(listed).collect()
    }

    fn wished(&self, wishes: &[AdapterWish]) -> Result<Vec<f32>, Problem> {
        let mut scales = vec![0.0; self.adapters.len()];
        for AdapterWish { id, scale } in wishes {
            let Some(place) = scales.get_mut(*id) else {
                let message =
                    format!("there is no adapter {id} here; GET /lora-adapters lists those that are");
                return Err(Problem::invalid("lora", message));
            };
            *place = *scale;
        }
        Ok(scales)
    }

    fn scales(&self) -> MutexGuard<'_, Vec<f32>> {
        // What is in it is whole whenever the lock is free.
        self.scales.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
