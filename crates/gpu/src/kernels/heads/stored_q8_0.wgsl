// A stored vector of q8_0: first the integers, word i being values 4i to 4i + 3, then, after all `words` of
// them, one scale in f16 for every 32 values, two in a word. Where one of these is infinite or not a number, the scale
// is neither, and the integers are zeros.

// By the bits of the magnitudes: a maximum of floats need not keep what is not a number.
fn largest_of(block: u32, dim: u32) -> f32 {
    var largest = 0u;
    for (var c = block * 32u; c < min(dim, block * 32u + 32u); c++) {
        largest = max(largest, bitcast<u32>(head[c]) & 0x7fffffffu);
    }
    return bitcast<f32>(largest);
}

fn stored_word(word: u32, words: u32, dim: u32) -> u32 {
    if word >= words {
        let block = 2u * (word - words);
        let low = half_bits(largest_of(block, dim) / 127.0);
        var high = 0u;
        if (block + 1u) * 32u < dim {
            high = half_bits(largest_of(block + 1u, dim) / 127.0);
        }
        return low | (high << 16u);
    }
    let largest = largest_of(word / 8u, dim);
    // Too small for an inverse, or not a number: the block is zero.
    let divides = largest > 3.8e-37 && bitcast<u32>(largest) < 0x7f800000u;
    if !divides {
        return 0u;
    }
    let inverse = 127.0 / largest;
    var bits = 0u;
    for (var i = 0u; i < 4u; i++) {
        let integer = i32(round(head[4u * word + i] * inverse));
        bits |= (bitcast<u32>(integer) & 0xffu) << (8u * i);
    }
    return bits;
}
