//! Prompts of a length in tokens, without the server's vocabulary: common English words, of which nearly every
//! vocabulary makes one token each, and a measure of how many this server makes of them.

use gleed_engine::sampler::Random;

/// Words of which vocabularies have a token, with a space before them.
const WORDS: [&str; 128] = [
    "the", "and", "that", "have", "for", "not", "with", "you", "this", "but", "his", "from", "they", "say",
    "her", "she", "will", "one", "all", "would", "there", "their", "what", "out", "about", "who", "get",
    "which", "when", "make", "can", "like", "time", "just", "him", "know", "take", "people", "into", "year",
    "your", "good", "some", "could", "them", "see", "other", "than", "then", "now", "look", "only", "come",
    "its", "over", "think", "also", "back", "after", "use", "two", "how", "our", "work", "first", "well",
    "way", "even", "new", "want", "because", "any", "these", "give", "day", "most", "big", "small", "old",
    "little", "long", "great", "own", "same", "home", "house", "water", "man", "woman", "child", "world",
    "school", "state", "family", "friend", "hand", "part", "place", "case", "week", "company", "system",
    "group", "problem", "fact", "night", "point", "name", "room", "mother", "area", "money", "story",
    "month", "lot", "right", "book", "eye", "job", "word", "side", "kind", "head", "far", "black", "white",
    "red", "door",
];

/// How a server counts words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Tokens of a word, on average.
    pub tokens_per_word: f64,
    /// Tokens of a prompt beside its words: a beginning, a template.
    pub overhead: f64,
}

impl Measure {
    /// From the tokens that prompts of two numbers of words have.
    pub fn of(few: (usize, u64), many: (usize, u64)) -> Measure {
        let slope = (many.1 as f64 - few.1 as f64) / (many.0 as f64 - few.0 as f64);
        // A server that counts nothing, or counts wrongly, is taken for one that counts words.
        let tokens_per_word = if (0.2..20.0).contains(&slope) { slope } else { 1.0 };
        let overhead = (few.1 as f64 - few.0 as f64 * tokens_per_word).max(0.0);
        Measure { tokens_per_word, overhead }
    }

    /// Words of a prompt that has `tokens` tokens in all.
    pub fn words(&self, tokens: usize) -> usize {
        self.more_words((tokens as f64 - self.overhead).max(0.0)).max(1)
    }

    /// Words of `tokens` more tokens.
    pub fn more_words(&self, tokens: f64) -> usize {
        (tokens / self.tokens_per_word).round() as usize
    }
}

/// Appends random words to a text.
pub fn append_words(text: &mut String, words: usize, random: &mut Random) {
    for _ in 0..words {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[random.below(WORDS.len() as u64) as usize]);
    }
}

/// Random words.
pub fn some_words(words: usize, random: &mut Random) -> String {
    let mut text = String::new();
    append_words(&mut text, words, random);
    text
}

/// A stream of random numbers for one part of a run, told by a number, that has nothing to do with those of other
/// parts.
pub fn part(seed: u64, number: u64) -> Random {
    let base = Random::new(seed).next_u64();
    Random::new(base ^ number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_finds_the_template_and_the_words() {
        // 1.5 tokens a word and a template of 20.
        let measure = Measure::of((8, 32), (72, 128));
        assert_eq!(measure, Measure { tokens_per_word: 1.5, overhead: 20.0 });
        assert_eq!(measure.words(20 + 300), 200);
        assert_eq!(measure.words(5), 1);
        // Nothing counted.
        assert_eq!(Measure::of((8, 0), (72, 0)), Measure { tokens_per_word: 1.0, overhead: 0.0 });
    }

    #[test]
    fn parts_differ_and_repeat() {
        let text = |seed, number| some_words(50, &mut part(seed, number));
        assert_eq!(text(1, 2), text(1, 2));
        assert_ne!(text(1, 2), text(1, 3));
        assert_ne!(text(1, 2), text(2, 2));
        assert_eq!(text(1, 2).split(' ').count(), 50);
    }
}
