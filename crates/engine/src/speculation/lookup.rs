//! Guesses from the request's own text: what followed the last few tokens when they came up before.

use std::collections::HashMap;

/// Tokens that must agree for a guess.
const CONTEXT: usize = 3;

/// Where each run of [`CONTEXT`] tokens of one text came up last.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    /// The position behind the run.
    behind: HashMap<[u32; CONTEXT], u32>,
    /// The tokens whose runs are in the map: all runs that end before this position.
    seen: usize,
}

impl Lookup {
    /// What may follow the tokens, which only ever grow: up to `most`, and none where their end is new.
    pub fn guess(&mut self, tokens: &[u32], most: usize) -> Vec<u32> {
        let Some(start) = self.find(tokens) else { return vec![] };
        let mut guess = Vec::with_capacity(most);
        for at in start..start + most {
            // A text that repeats itself goes on into what was guessed.
            let next = tokens.get(at).copied().unwrap_or_else(|| guess[at - tokens.len()]);
            guess.push(next);
        }
        guess
    }

    /// The first of these.
    pub fn next(&mut self, tokens: &[u32]) -> Option<u32> {
        self.find(tokens).map(|at| tokens[at])
    }

    /// Where the run at the end came up before: the position behind it.
    fn find(&mut self, tokens: &[u32]) -> Option<usize> {
        // The run at the very end is what is looked for.
        while self.seen < tokens.len() {
            if let Some(run) = run(tokens, self.seen) {
                self.behind.insert(run, self.seen as u32);
            }
            self.seen += 1;
        }
        self.behind.get(&run(tokens, tokens.len())?).map(|at| *at as usize)
    }
}

/// The tokens before a position.
fn run(tokens: &[u32], end: usize) -> Option<[u32; CONTEXT]> {
    tokens.get(end.checked_sub(CONTEXT)?..end)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Random;

    #[test]
    fn guesses_are_what_followed_last_time() {
        let mut random = Random::new(2);
        let (mut guessed, mut none) = (0, 0);
        for _ in 0..200 {
            let (mut tokens, mut lookup) = (vec![], Lookup::default());
            for _ in 0..60 {
                tokens.push(random.below(3) as u32);
                if random.below(3) == 0 {
                    continue;
                }
                // The last place before the end at which the same three tokens stand, looked for backwards.
                let end = tokens.len();
                let place =
                    (CONTEXT..end).rev().find(|&at| end >= 3 && tokens[at - 3..at] == tokens[end - 3..]);
                let guess = lookup.guess(&tokens, 5);
                assert_eq!(lookup.next(&tokens), guess.first().copied());
                let Some(place) = place else {
                    assert!(guess.is_empty());
                    none += 1;
                    continue;
                };
                let mut longer = tokens.clone();
                (0..5).for_each(|step| longer.push(longer[place + step]));
                assert_eq!(guess, longer[end..]);
                guessed += 1;
            }
        }
        assert!(guessed > 1000 && none > 1000, "{guessed} {none}");
    }
}
