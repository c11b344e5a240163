// What WGSL has no words for. These are only names and types: the bodies are written in the language of the device
// (spirv.rs), as WGSL has neither matrices of bytes nor anything that multiplies the elements of two matrices.

alias Sums = coop_mat16x16<f32, C>;
// In truth 16 sums of 32 bytes each, and 32 bytes of 16 rows each.
alias Left = coop_mat16x16<f16, A>;
alias Right = coop_mat16x16<f16, B>;

// The products of weights and inputs, added up over 32 columns: exactly.
fn products(left: Left, right: Right) -> Sums {
    return coopMultiplyAdd(left, right, Sums());
}

// a · b, element by element.
fn matrix_product(a: Sums, b: Sums) -> Sums {
    return a + b;
}

// fma(a, b, c), element by element.
fn matrix_fma(a: Sums, b: Sums, c: Sums) -> Sums {
    return a + b + c;
}

// 16 sums of the staged weights, and 16 rows of the staged inputs: 32 bytes each, the next one 3 vectors further.
fn left_at(at: u32) -> Left {
    return Left();
}

fn right_at(at: u32) -> Right {
    return Right();
}
