// A number whose order is that of the logits: 0 for negative infinity and what is not a number, which are
// never chosen. Both zeros are the same. Of bits alone, so that no compiler's view of floats matters.
fn key_of(logit: f32) -> u32 {
    let bits = bitcast<u32>(logit);
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u || bits == 0xff800000u {
        return 0u;
    }
    if magnitude == 0u {
        return 0x80000000u;
    }
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}

// The key of a logit that is not a number, above all others: it is found wherever it is, and no token is chosen.
const NOT_A_NUMBER = 0xffffffffu;

fn is_number(logit: f32) -> bool {
    return (bitcast<u32>(logit) & 0x7fffffffu) <= 0x7f800000u;
}
