// Fragments of matrices of halves, and their elements. WGSL has no words for elements: the bodies of left_of, right_of,
// sums_of and halves_of are only there for their types, and are written in the language of the device (spirv.rs).
// fragments_shared.wgsl says the same in words that there are, for devices whose language is another or whose lanes have
// other elements.
//
// What a lane has, where L is the lane divided by 4 and M what is left: of the left matrix, 16 outputs of 16 columns,
// columns 2 M, 2 M + 1, 2 M + 8 and 2 M + 9 of output L (near) and of output L + 8 (far); of the right one the same
// columns of rows L and L + 8; of their product rows 2 M, 2 M + 1, 2 M + 8 and 2 M + 9 of output L and of output L + 8.

alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;
alias Sums = coop_mat16x16<f32, C>;
// Sums of several products that are chains of their own.
alias Totals = coop_mat16x16<f32, C>;

struct LaneSums {
    near: vec4<f32>,
    far: vec4<f32>,
}

// What a kernel calls before all else.
fn begin_units(subgroup: u32, lane: u32) {
}

fn left_of(near: vec4<f16>, far: vec4<f16>) -> Left {
    return Left();
}

// Two halves in each word.
fn right_of(near: vec2<u32>, far: vec2<u32>) -> Right {
    return Right();
}

fn sums_of(sums: Sums) -> LaneSums {
    return LaneSums();
}

fn halves_of(bits: u32) -> vec2<f16> {
    return vec2<f16>();
}

// a · b + c, rounded once.
fn fused(a: vec2<f16>, b: vec2<f16>, c: vec2<f16>) -> vec2<f16> {
    return fma(a, b, c);
}

fn no_sums() -> Sums {
    return Sums();
}

fn multiplied(left: Left, right: Right, sums: Sums) -> Sums {
    return coopMultiplyAdd(left, right, sums);
}

fn no_totals() -> Totals {
    return Totals();
}

fn added(totals: Totals, sums: Sums) -> Totals {
    return totals + sums;
}

fn totals_of(totals: Totals) -> LaneSums {
    return sums_of(totals);
}
