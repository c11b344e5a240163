// What WGSL has no words for. These are only names and types: the bodies are written in the language of the device
// (spirv.rs), as WGSL has no matrices of bytes, and no elements of matrices.

alias Sums = coop_mat16x16<f32, C>;
// In truth 16 sums of 32 bytes each, and 32 bytes of 16 rows each.
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;

// What a lane has of 16 sums of 16 rows, where L is the lane divided by 4 and M what is left: of sum L the rows 2 M,
// 2 M + 1, 2 M + 8 and 2 M + 9, and the same of sum L + 8.
struct Eight {
    near: vec4<i32>,
    far: vec4<i32>,
}

// The products of weights and inputs, added up over 32 columns: exactly, and to the bits of 1.5 · 2²³.
fn products(left: Left, right: Right) -> Eight {
    let sums = coopMultiplyAdd(left, right, Sums());
    return Eight();
}

// 16 sums of the staged weights, and 16 rows of the staged inputs: 32 bytes each, the next one 3 vectors further.
fn left_at(at: u32) -> Left {
    return Left();
}

fn right_at(at: u32) -> Right {
    return Right();
}
