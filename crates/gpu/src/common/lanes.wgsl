// What lanes tell each other: the word of the lane whose number differs in these bits.
fn exchanged(word: u32, bits: u32) -> u32 {
    return subgroupShuffleXor(word, bits);
}
