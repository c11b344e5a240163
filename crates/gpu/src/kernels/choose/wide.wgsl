// Unsigned numbers of 64 bits: the low word, then the high one.

fn wide_sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn wide_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

// n from 0 to 63.
fn wide_shifted_right(a: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u {
        return a;
    }
    if n >= 32u {
        return vec2<u32>(a.y >> (n - 32u), 0u);
    }
    return vec2<u32>((a.x >> n) | (a.y << (32u - n)), a.y >> n);
}

// All 64 bits of a product, by halves of 16 bits.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    let high = (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
    return vec2<u32>((other << 16u) | (low & 0xffffu), high);
}

fn high_product(a: u32, b: u32) -> u32 {
    return wide_product(a, b).y;
}

// The upper 64 of the 128 bits of a product.
fn wide_high_product(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = vec2<u32>(high_product(a.x, b.x), 0u);
    let one = wide_sum(wide_product(a.y, b.x), low);
    let other = wide_sum(wide_product(a.x, b.y), vec2<u32>(one.x, 0u));
    let carried = wide_sum(vec2<u32>(one.y, 0u), vec2<u32>(other.y, 0u));
    return wide_sum(wide_product(a.y, b.y), carried);
}
