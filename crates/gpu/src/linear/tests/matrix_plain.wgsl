// What matrix.wgsl says, in plain WGSL: for tests of what is around it, where there are no matrix units.

alias Left = u32;
alias Right = u32;

struct Eight {
    near: vec4<i32>,
    far: vec4<i32>,
}

// The lane of this thread.
var<private> units_lane: u32;

fn four_products(sum: u32, right: u32) -> vec4<i32> {
    var all = vec4<i32>(0x4b400000);
    for (var e = 0u; e < 4u; e++) {
        let row = right + (2u * (units_lane % 4u) + 8u * (e / 2u) + e % 2u) * 3u;
        for (var word = 0u; word < 8u; word++) {
            all[e] += dot4I8Packed(weights[sum + word / 4u][word % 4u], inputs[row + word / 4u][word % 4u]);
        }
    }
    return all;
}

fn products(left: Left, right: Right) -> Eight {
    let sum = left + units_lane / 4u * 3u;
    return Eight(four_products(sum, right), four_products(sum + 24u, right));
}

fn left_at(at: u32) -> Left {
    return at;
}

fn right_at(at: u32) -> Right {
    return at;
}
