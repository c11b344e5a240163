// What fragments.wgsl says, in plain WGSL, as gleed_model::arithmetic::unit defines it: for tests of what is around it,
// where there are no matrix units. Threads put what they have of a fragment where all of their 32 see it.

struct Left {
    near: vec4<f16>,
    far: vec4<f16>,
}

struct Right {
    near: vec2<u32>,
    far: vec2<u32>,
}

struct Sums {
    near: vec4<f32>,
    far: vec4<f32>,
}

alias LaneSums = Sums;
alias Totals = Sums;

// The place of this thread among its 32, and theirs in the workgroup.
var<private> units_lane: u32;
var<private> units_subgroup: u32;

// [subgroup][output or row][column]
var<workgroup> all_left: array<f32, ALL_FRAGMENTS>;
var<workgroup> all_right: array<f32, ALL_FRAGMENTS>;

fn begin_units(subgroup: u32, lane: u32) {
    units_subgroup = subgroup;
    units_lane = lane;
}

fn left_of(near: vec4<f16>, far: vec4<f16>) -> Left {
    return Left(near, far);
}

fn right_of(near: vec2<u32>, far: vec2<u32>) -> Right {
    return Right(near, far);
}

fn sums_of(sums: Sums) -> LaneSums {
    return sums;
}

fn halves_of(bits: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float(bits));
}

fn fused(a: vec2<f16>, b: vec2<f16>, c: vec2<f16>) -> vec2<f16> {
    // The product is exact. Where the sum is not, an odd last bit says so to the rounding to halves.
    let product = vec2<f32>(a) * vec2<f32>(b);
    let added = vec2<f32>(c);
    let sum = product + added;
    let part = sum - product;
    let lost = (product - (sum - part)) + (added - part);
    let bits = bitcast<vec2<u32>>(sum);
    let larger = (lost > vec2<f32>()) == (sum > vec2<f32>());
    let odd = select(bits - 1u, bits + 1u, larger);
    let inexact = (lost != vec2<f32>()) & ((bits & vec2<u32>(1u)) == vec2<u32>());
    return vec2<f16>(bitcast<vec2<f32>>(select(bits, odd, inexact)));
}

fn no_sums() -> Sums {
    return Sums();
}

fn no_totals() -> Totals {
    return Totals();
}

fn added(totals: Totals, sums: Sums) -> Totals {
    return Totals(totals.near + sums.near, totals.far + sums.far);
}

fn totals_of(totals: Totals) -> LaneSums {
    return totals;
}

// Sixteen, which compilers do not know, so that they do not write loops out.
fn sixteen() -> u32 {
    return select(16u, 0u, shape.columns == 0u);
}

fn column_of(element: u32) -> u32 {
    return 2u * (units_lane % 4u) + element % 2u + element / 2u * 8u;
}

fn multiplied(left: Left, right: Right, sums: Sums) -> Sums {
    let first = units_subgroup * 256u;
    let own = first + units_lane / 4u * 16u;
    let right_near = vec4<f32>(unpack2x16float(right.near.x), unpack2x16float(right.near.y));
    let right_far = vec4<f32>(unpack2x16float(right.far.x), unpack2x16float(right.far.y));
    workgroupBarrier();
    for (var e = 0u; e < sixteen() / 4u; e++) {
        all_left[own + column_of(e)] = f32(left.near[e]);
        all_left[own + 128u + column_of(e)] = f32(left.far[e]);
        all_right[own + column_of(e)] = right_near[e];
        all_right[own + 128u + column_of(e)] = right_far[e];
    }
    workgroupBarrier();
    var result: Sums;
    for (var e = 0u; e < sixteen() / 4u; e++) {
        let row = first + column_of(e) * 16u;
        result.near[e] = unit(own, row, sums.near[e]);
        result.far[e] = unit(own + 128u, row, sums.far[e]);
    }
    return result;
}

// The exponent of a half that is not zero.
fn half_exponent(x: f32) -> i32 {
    return max(i32(bitcast<u32>(x) >> 23u & 0xffu) - 127, -14);
}

// A magnitude in whole numbers of 2^(e - 25), cut; it is below 2^(e + 2).
fn cut(x: f32, e: i32) -> i32 {
    let bits = bitcast<u32>(x);
    let exponent = i32(bits >> 23u & 0xffu) - 127;
    let mantissa = bits & 0x7fffffu | 0x800000u;
    // mantissa · 2^(exponent - 23) / 2^(e - 25)
    let shift = exponent - e + 2;
    let whole = select(mantissa >> u32(min(-shift, 31)), mantissa << u32(clamp(shift, 0, 8)), shift >= 0);
    return select(i32(whole), -i32(whole), (bits >> 31u) == 1u);
}

fn unit(left: u32, right: u32, sum: f32) -> f32 {
    // Products of halves are exact in f32.
    var most = select(-1000, i32(bitcast<u32>(sum) >> 23u & 0xffu) - 127, sum != 0.0);
    for (var k = 0u; k < sixteen(); k++) {
        let a = all_left[left + k];
        let b = all_right[right + k];
        if (a != 0.0 && b != 0.0) {
            most = max(most, half_exponent(a) + half_exponent(b));
        }
    }
    if (most == -1000) {
        return 0.0;
    }
    // Below 2^33 together: the lower 16 bits by themselves.
    var high = 0;
    var low = 0;
    if (sum != 0.0) {
        let whole = cut(sum, most);
        high += whole >> 16u;
        low += whole & 0xffff;
    }
    for (var k = 0u; k < sixteen(); k++) {
        let product = all_left[left + k] * all_right[right + k];
        if (product != 0.0) {
            let whole = cut(product, most);
            high += whole >> 16u;
            low += whole & 0xffff;
        }
    }
    high += low >> 16u;
    low = low & 0xffff;
    let negative = high < 0;
    if (negative) {
        // The magnitude: all bits turned, and one more.
        high = ~high;
        low = (~low & 0xffff) + 1;
        high += low >> 16u;
        low = low & 0xffff;
    }
    if (high == 0 && low == 0) {
        return 0.0;
    }
    // Cut to 24 bits: 16 are in the lower part.
    let bits = select(firstLeadingBit(high) + 17, firstLeadingBit(low) + 1, high == 0);
    let excess = u32(max(bits - 24, 0));
    let kept = f32(high) * 65536.0 + f32(low >> excess << excess);
    // A power of two at a time, as one may be too small for a float.
    let half_way = (most - 25) / 2;
    let scaled = kept * bitcast<f32>(u32(half_way + 127) << 23u) * bitcast<f32>(u32(most - 25 - half_way + 127) << 23u);
    return select(scaled, -scaled, negative);
}
