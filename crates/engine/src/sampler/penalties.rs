//! Penalties on recent tokens: repetition, frequency and presence, over one window.

use std::collections::{HashMap, VecDeque};

use super::SamplerSettings;

/// The last tokens of a sequence, counted.
#[derive(Debug, Clone)]
pub(super) struct Penalties {
    repeat: f32,
    frequency: f32,
    presence: f32,
    /// The most tokens that `recent` holds; 0 when no penalty is on.
    window: usize,
    recent: VecDeque<u32>,
    counts: HashMap<u32, u32>,
}

impl Penalties {
    pub fn new(settings: &SamplerSettings) -> Self {
        let off = settings.repeat_penalty == 1.0
            && settings.frequency_penalty == 0.0
            && settings.presence_penalty == 0.0;
        let window = if off { 0 } else { settings.repeat_last_n };
        // Twice the window keeps the map from growing as tokens come and go; a window without a practical
        // bound starts small and grows with the text.
        let room = window.min(4096);
        Penalties {
            repeat: settings.repeat_penalty,
            frequency: settings.frequency_penalty,
            presence: settings.presence_penalty,
            window,
            recent: VecDeque::with_capacity(room),
            counts: HashMap::with_capacity(2 * room),
        }
    }

    /// Whether there never will be anything to penalise.
    pub fn are_off(&self) -> bool {
        self.window == 0
    }

    /// Whether there is nothing to penalise.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// Takes in the next token of the sequence, forgetting the one that leaves the window.
    pub fn accept(&mut self, token: u32) {
        if self.window == 0 {
            return;
        }
        if self.recent.len() == self.window
            && let Some(old) = self.recent.pop_front()
            && let Some(count) = self.counts.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&old);
            }
        }
        self.recent.push_back(token);
        *self.counts.entry(token).or_insert(0) += 1;
    }

    /// Lowers the scores of the recent tokens.
    pub fn apply(&self, scores: &mut [f32]) {
        for (&token, &count) in &self.counts {
            let Some(score) = scores.get_mut(token as usize) else { continue };
            *score = if *score > 0.0 { *score / self.repeat } else { *score * self.repeat };
            *score -= self.frequency * count as f32 + self.presence;
        }
    }
}
