//! Stop strings: found wherever they end, across and inside tokens, and never shown.
//!
//! Text arrives in pieces of whole characters. What might be the beginning of a stop string is held back
//! until the next piece decides. The result does not depend on where the pieces are cut.

use crate::{Error, Result};

/// Watches a text for stop strings.
#[derive(Debug, Clone, Default)]
pub struct StopStrings {
    stops: Vec<String>,
    /// The end of the text, when it could be the beginning of a stop string.
    held: String,
}

/// What a piece of text brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The text that is safe to show.
    pub text: String,
    /// The stop string that ended the text; nothing after it matters.
    pub stop: Option<String>,
}

impl StopStrings {
    /// Watches for these strings, none of which may be empty.
    pub fn new(stops: Vec<String>) -> Result<Self> {
        match stops.iter().position(|stop| stop.is_empty()) {
            Some(index) => Err(Error::EmptyStop { index }),
            None => Ok(StopStrings { stops, held: String::new() }),
        }
    }

    /// Takes in the next piece. The stop string that ends first wins, and of those the one that starts
    /// first.
    pub fn push(&mut self, piece: &str) -> Passed {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| Some((self.held.find(stop.as_str())?, stop)));
        if let Some((start, stop)) = found.min_by_key(|(start, stop)| (start + stop.len(), *start)) {
            let stop = Some(stop.clone());
            self.held.truncate(start);
            return Passed { text: std::mem::take(&mut self.held), stop };
        }
        let kept = self.open_length();
        let rest = self.held.split_off(self.held.len() - kept);
        Passed { text: std::mem::replace(&mut self.held, rest), stop: None }
    }

    /// Gives out what was held back, when no more text will come.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The length of the longest end of the text that is the beginning of a stop string.
    fn open_length(&self) -> usize {
        let longest = self.stops.iter().map(|stop| stop.len() - 1).max().unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        (from..self.held.len())
            .filter(|&start| self.held.is_char_boundary(start))
            .find(|&start| self.stops.iter().any(|stop| stop.starts_with(&self.held[start..])))
            .map_or(0, |start| self.held.len() - start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Random;

    /// Feeds pieces until a stop; returns all text shown and the stop.
    fn run(stops: &[&str], pieces: &[&str]) -> (String, Option<String>) {
        let mut watcher = StopStrings::new(stops.iter().map(|s| s.to_string()).collect()).unwrap();
        let mut text = String::new();
        for piece in pieces {
            let passed = watcher.push(piece);
            text.push_str(&passed.text);
            if passed.stop.is_some() {
                return (text, passed.stop);
            }
        }
        text.push_str(&watcher.finish());
        (text, None)
    }

    #[test]
    fn stops_are_found_wherever_they_lie() {
        let stopped = |text: &str, stop: &str| (text.to_string(), Some(stop.to_string()));
        assert_eq!(run(&["END"], &["one E", "N", "D two"]), stopped("one ", "END"));
        assert_eq!(run(&["END"], &["one END two"]), stopped("one ", "END"));
        assert_eq!(run(&["END"], &["ENEND"]), stopped("EN", "END"));
        assert_eq!(run(&["END"], &["EN", "END"]), stopped("EN", "END"));
        assert_eq!(run(&["日本"], &["東京、日", "本です"]), stopped("東京、", "日本"));
        assert_eq!(run(&["END"], &["an EN"]), ("an EN".into(), None));
        // "b" is complete before "abc" is.
        assert_eq!(run(&["abc", "b"], &["xa", "b", "c"]), stopped("xa", "b"));
        assert_eq!(run(&["abc", "b"], &["xabc"]), stopped("xa", "b"));
        // Both end at the same character: the one that starts first.
        assert_eq!(run(&["c", "abc"], &["xabc"]), stopped("x", "abc"));
        assert_eq!(run(&[], &["any", "thing"]), ("anything".into(), None));
    }

    #[test]
    fn text_that_cannot_become_a_stop_is_not_held() {
        let mut watcher = StopStrings::new(vec!["\n\n".into(), "User:".into()]).unwrap();
        assert_eq!(watcher.push("Hello\n").text, "Hello");
        assert_eq!(watcher.push("Us").text, "\n");
        assert_eq!(watcher.push("e it").text, "Use it");
        assert_eq!(watcher.push("!").text, "!");
    }

    #[test]
    fn empty_stops_are_refused() {
        let error = StopStrings::new(vec!["a".into(), String::new()]).unwrap_err();
        assert_eq!(error, Error::EmptyStop { index: 1 });
    }

    #[test]
    fn the_cuts_between_pieces_do_not_matter() {
        let mut random = Random::new(9);
        let alphabet = ['a', 'b', 'é', '字'];
        let word = |random: &mut Random, most: u64| -> String {
            (0..1 + random.below(most)).map(|_| alphabet[random.below(4) as usize]).collect()
        };
        let mut stopped = 0;
        for _ in 0..4000 {
            let text = word(&mut random, 30);
            let stops: Vec<String> = (0..random.below(4)).map(|_| word(&mut random, 4)).collect();
            // The truth, character by character: the first end at which some stop string is complete.
            let mut ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
            let hit = ends.find_map(|end| {
                let complete = stops.iter().filter(|stop| text[..end].ends_with(stop.as_str()));
                complete.map(|stop| (end - stop.len(), stop.clone())).min()
            });
            let truth = match hit {
                Some((start, stop)) => (text[..start].to_string(), Some(stop)),
                None => (text.clone(), None),
            };
            stopped += u32::from(truth.1.is_some());
            let mut pieces: Vec<String> = vec![String::new()];
            for c in text.chars() {
                if random.below(3) == 0 {
                    pieces.push(String::new());
                }
                pieces.last_mut().unwrap().push(c);
            }
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(run(&stops, &pieces), truth, "{stops:?} {pieces:?}");
        }
        assert!(stopped > 1000 && stopped < 3900, "{stopped}");
    }
}
