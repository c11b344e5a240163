// A stored vector of f32: word i is value i.

fn stored_word(word: u32, words: u32, dim: u32) -> u32 {
    return bitcast<u32>(head[word]);
}
