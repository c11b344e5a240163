// A stored vector of f16: word i is values 2i and 2i + 1, the first in the lower half.

fn stored_word(word: u32, words: u32, dim: u32) -> u32 {
    return half_bits(head[2u * word]) | (half_bits(head[2u * word + 1u]) << 16u);
}
