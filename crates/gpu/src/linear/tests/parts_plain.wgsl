// Matrices of 8x8 elements and their products in plain WGSL: a lane has two neighbouring elements, as they lie in memory.
alias LeftPart = vec2<f32>;
alias RightPart = vec2<f32>;
alias SumsPart = vec2<f32>;

const PART_SUBGROUPS = 2u;

// [subgroup][output or row][column]
var<workgroup> plain_left: array<f32, 64 * PART_SUBGROUPS>;
var<workgroup> plain_right: array<f32, 64 * PART_SUBGROUPS>;

fn part_place(at: u32) -> u32 {
    return at + units_lane / 4u * 16u + units_lane % 4u * 2u;
}

fn load_left(at: u32) -> LeftPart {
    return vec2<f32>(f32(unit_halves[part_place(at)]), f32(unit_halves[part_place(at) + 1u]));
}

fn load_right(at: u32) -> RightPart {
    return load_left(at);
}

fn load_sums(at: u32) -> SumsPart {
    return vec2<f32>(unit_sums[part_place(at)], unit_sums[part_place(at) + 1u]);
}

fn store_sums(sums: SumsPart, at: u32) {
    unit_sums[part_place(at)] = sums.x;
    unit_sums[part_place(at) + 1u] = sums.y;
}

fn multiply_parts(left: LeftPart, right: RightPart, sums: SumsPart) -> SumsPart {
    let first = units_at / 4u;
    let own = first + units_lane * 2u;
    workgroupBarrier();
    plain_left[own] = left.x;
    plain_left[own + 1u] = left.y;
    plain_right[own] = right.x;
    plain_right[own + 1u] = right.y;
    workgroupBarrier();
    var result = sums;
    for (var e = 0u; e < 2u; e++) {
        for (var k = 0u; k < 8u; k++) {
            let weight = plain_left[first + units_lane / 4u * 8u + k];
            let input = plain_right[first + (units_lane % 4u * 2u + e) * 8u + k];
            result[e] = fma(weight, input, result[e]);
        }
    }
    return result;
}
