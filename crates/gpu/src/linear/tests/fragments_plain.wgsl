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

// [subgroup][lane]: what each has of a fragment, as bits of halves: two columns of the near one, two further ones, and the
// same of the far one.
var<workgroup> all_left: array<vec4<u32>, ALL_FRAGMENTS / 8u>;
var<workgroup> all_right: array<vec4<u32>, ALL_FRAGMENTS / 8u>;

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

// One, which compilers do not know, so that they do not write loops out.
fn one() -> u32 {
    return select(1u, 0u, shape.columns == 0u);
}

fn multiplied(left: Left, right: Right, sums: Sums) -> Sums {
    let first = units_subgroup * 32u;
    let near_left = vec4<f32>(left.near);
    let far_left = vec4<f32>(left.far);
    workgroupBarrier();
    all_left[first + units_lane] = vec4<u32>(
        pack2x16float(near_left.xy),
        pack2x16float(near_left.zw),
        pack2x16float(far_left.xy),
        pack2x16float(far_left.zw),
    );
    all_right[first + units_lane] = vec4<u32>(right.near, right.far);
    workgroupBarrier();
    let columns = 16u * one();
    // Those still to be computed, and behind them what has been.
    var near = sums.near;
    var far = sums.far;
    for (var e = 0u; e < columns / 2u; e++) {
        let output = 2u * (units_lane % 4u) + e % 2u;
        let result = unit(first + units_lane / 4u * 4u, e >= 4u, first + output * 4u, e % 4u >= 2u, near.x, columns);
        near = vec4<f32>(near.yzw, far.x);
        far = vec4<f32>(far.yzw, result);
    }
    return Sums(near, far);
}

// A column of the near or the far one of two fragments that four lanes from this one on have.
fn element(words: vec4<u32>, is_far: bool, column: u32) -> f32 {
    let own = select(words.xy, words.zw, is_far);
    return unpack2x16float(select(own.x, own.y, column >= 8u) >> (column % 2u * 16u)).x;
}

// The exponent of a float.
fn exponent_of(x: f32) -> i32 {
    return i32(bitcast<u32>(x) >> 23u & 0xffu) - 127;
}

// A magnitude in whole numbers of 2^(e - 25), cut; it is below 2^(e + 2).
fn cut(x: f32, e: i32) -> i32 {
    let bits = bitcast<u32>(x);
    let mantissa = bits & 0x7fffffu | 0x800000u;
    // mantissa · 2^(exponent - 23) / 2^(e - 25)
    let shift = exponent_of(x) - e + 2;
    let whole = select(mantissa >> u32(min(-shift, 31)), mantissa << u32(clamp(shift, 0, 8)), shift >= 0);
    return select(i32(whole), -i32(whole), (bits >> 31u) == 1u);
}

// Twice over the products of all columns and the sum: for the largest exponent, and to add them. Without branches, which
// compilers take longer for than for all else.
fn unit(left: u32, left_is_far: bool, right: u32, right_is_far: bool, sum: f32, columns: u32) -> f32 {
    var most = -1000;
    // Below 2^33 together: the lower 16 bits by themselves.
    var high = 0;
    var low = 0;
    var column = 0u;
    for (var turn = 0u; turn < 2u * columns + 2u; turn++) {
        let lane = column % 8u / 2u;
        let a = element(all_left[left + lane], left_is_far, column);
        let b = element(all_right[right + lane], right_is_far, column);
        // Products of halves are exact in f32; the exponent of a half is -14 at least.
        let is_sum = column == columns;
        let term = select(a * b, sum, is_sum);
        let of_product = max(exponent_of(a), -14) + max(exponent_of(b), -14);
        let exponent = select(of_product, exponent_of(sum), is_sum);
        most = max(most, select(-1000, exponent, term != 0.0));
        let whole = select(0, cut(term, most), term != 0.0 && turn > columns);
        high += whole >> 16u;
        low += whole & 0xffff;
        column = select(column + 1u, 0u, is_sum);
    }
    high += low >> 16u;
    low = low & 0xffff;
    // The magnitude: of a negative number all bits turned, and one more.
    let turned = select(0, -1, high < 0);
    let negative = high < 0;
    high = high ^ turned;
    low = ((low ^ turned) & 0xffff) - turned;
    high += low >> 16u;
    low = low & 0xffff;
    // Cut to 24 bits: 16 are in the lower part.
    let bits = select(firstLeadingBit(high) + 17, firstLeadingBit(low) + 1, high == 0);
    let excess = u32(max(bits - 24, 0));
    let kept = f32(high) * 65536.0 + f32(low >> excess << excess);
    // A power of two at a time, as one may be too small for a float.
    let half_way = (most - 25) / 2;
    let scaled = kept * bitcast<f32>(u32(half_way + 127) << 23u) * bitcast<f32>(u32(most - 25 - half_way + 127) << 23u);
    return select(select(scaled, -scaled, negative), 0.0, (high | low) == 0);
}
