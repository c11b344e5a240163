// What fragments.wgsl says, in words that WGSL has: lanes put what they have of a matrix into workgroup memory, where the
// device loads its matrices from, of 16x16 elements or four of 8x8 for one.

//@if SIXTEEN
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sums = coop_mat16x16<f32, C>;

//@end
//@if EIGHT
alias LeftPart = coop_mat8x8<f16, A>;
alias RightPart = coop_mat8x8<f16, B>;
alias SumsPart = coop_mat8x8<f32, C>;

// The first eight outputs or rows of the first eight columns and of the others, and the other outputs or rows.
struct Left {
    near_first: LeftPart,
    near_last: LeftPart,
    far_first: LeftPart,
    far_last: LeftPart,
}

struct Right {
    near_first: RightPart,
    near_last: RightPart,
    far_first: RightPart,
    far_last: RightPart,
}

// The first eight outputs with the first eight rows and with the others, and the other outputs.
struct Sums {
    near_first: SumsPart,
    near_last: SumsPart,
    far_first: SumsPart,
    far_last: SumsPart,
}

//@end
struct LaneSums {
    near: vec4<f32>,
    far: vec4<f32>,
}

alias Totals = LaneSums;

// The lane's number, and where its subgroup's matrices are.
var<private> units_lane: u32;
var<private> units_at: u32;

// [subgroup][output or row][column], and [subgroup][output][row].
var<workgroup> unit_halves: array<f16, $ELEMENTS>;
var<workgroup> unit_sums: array<f32, $ELEMENTS>;

fn begin_units(subgroup: u32, lane: u32) {
    units_lane = lane;
    units_at = subgroup * 256u;
}

// Where the lane's elements of the first eight outputs or rows begin.
fn own_place() -> u32 {
    return units_at + units_lane / 4u * 16u + units_lane % 4u * 2u;
}

fn put_halves(at: u32, x: vec4<f16>) {
    unit_halves[at] = x.x;
    unit_halves[at + 1u] = x.y;
    unit_halves[at + 8u] = x.z;
    unit_halves[at + 9u] = x.w;
}

fn put_matrix(near: vec4<f16>, far: vec4<f16>) {
    // Others may still load what was there.
    subgroupBarrier();
    put_halves(own_place(), near);
    put_halves(own_place() + 128u, far);
    subgroupBarrier();
}

fn left_of(near: vec4<f16>, far: vec4<f16>) -> Left {
    put_matrix(near, far);
    //@if SIXTEEN
    return coopLoadT<Left>(&unit_halves[units_at], 16u);
    //@end
    //@if EIGHT
    return Left(
        coopLoadT<LeftPart>(&unit_halves[units_at], 16u),
        coopLoadT<LeftPart>(&unit_halves[units_at + 8u], 16u),
        coopLoadT<LeftPart>(&unit_halves[units_at + 128u], 16u),
        coopLoadT<LeftPart>(&unit_halves[units_at + 136u], 16u),
    );
    //@end
}

// Two halves in each word.
fn right_of(near: vec2<u32>, far: vec2<u32>) -> Right {
    put_matrix(vec4<f16>(halves_of(near.x), halves_of(near.y)), vec4<f16>(halves_of(far.x), halves_of(far.y)));
    //@if SIXTEEN
    return coopLoad<Right>(&unit_halves[units_at], 16u);
    //@end
    //@if EIGHT
    return Right(
        coopLoad<RightPart>(&unit_halves[units_at], 16u),
        coopLoad<RightPart>(&unit_halves[units_at + 8u], 16u),
        coopLoad<RightPart>(&unit_halves[units_at + 128u], 16u),
        coopLoad<RightPart>(&unit_halves[units_at + 136u], 16u),
    );
    //@end
}

fn sums_of(sums: Sums) -> LaneSums {
    subgroupBarrier();
    //@if SIXTEEN
    coopStoreT(sums, &unit_sums[units_at], 16u);
    //@end
    //@if EIGHT
    coopStoreT(sums.near_first, &unit_sums[units_at], 16u);
    coopStoreT(sums.near_last, &unit_sums[units_at + 8u], 16u);
    coopStoreT(sums.far_first, &unit_sums[units_at + 128u], 16u);
    coopStoreT(sums.far_last, &unit_sums[units_at + 136u], 16u);
    //@end
    subgroupBarrier();
    return LaneSums(four_sums(own_place()), four_sums(own_place() + 128u));
}

fn four_sums(at: u32) -> vec4<f32> {
    return vec4<f32>(unit_sums[at], unit_sums[at + 1u], unit_sums[at + 8u], unit_sums[at + 9u]);
}

fn halves_of(bits: u32) -> vec2<f16> {
    return vec2<f16>(unpack2x16float(bits));
}

// a · b + c, rounded once.
fn fused(a: vec2<f16>, b: vec2<f16>, c: vec2<f16>) -> vec2<f16> {
    return fma(a, b, c);
}

fn no_sums() -> Sums {
    subgroupBarrier();
    for (var i = units_lane; i < 256u; i += 32u) {
        unit_sums[units_at + i] = 0.0;
    }
    subgroupBarrier();
    //@if SIXTEEN
    return coopLoadT<Sums>(&unit_sums[units_at], 16u);
    //@end
    //@if EIGHT
    let part = coopLoadT<SumsPart>(&unit_sums[units_at], 16u);
    return Sums(part, part, part, part);
    //@end
}

fn multiplied(left: Left, right: Right, sums: Sums) -> Sums {
    //@if SIXTEEN
    return coopMultiplyAdd(left, right, sums);
    //@end
    //@if EIGHT
    return Sums(
        both_halves(left.near_first, left.near_last, right.near_first, right.near_last, sums.near_first),
        both_halves(left.near_first, left.near_last, right.far_first, right.far_last, sums.near_last),
        both_halves(left.far_first, left.far_last, right.near_first, right.near_last, sums.far_first),
        both_halves(left.far_first, left.far_last, right.far_first, right.far_last, sums.far_last),
    );
    //@end
}

//@if EIGHT
fn both_halves(left: LeftPart, last_left: LeftPart, right: RightPart, last_right: RightPart, sums: SumsPart) -> SumsPart {
    return coopMultiplyAdd(last_left, last_right, coopMultiplyAdd(left, right, sums));
}

//@end
fn no_totals() -> Totals {
    return Totals();
}

fn added(totals: Totals, sums: Sums) -> Totals {
    let more = sums_of(sums);
    return Totals(totals.near + more.near, totals.far + more.far);
}

fn totals_of(totals: Totals) -> LaneSums {
    return totals;
}
