// What the linear kernels have in common: the shape, the operands and the end of a result.
//
// plain:  out[row][o] = Σ_c a[o][c] · input[row][c] (+ bias_a[o])
// gated:  the same of two matrices, activation(that of a) · that of b
// joined: the outputs of a, then those of b
//
// Where an RMS norm before leaves its factor of a row to be multiplied here, every sum is multiplied with it
// before the bias is added.

struct Shape {
    // Columns of the input, and groups of 32 that they make.
    columns: u32,
    groups: u32,
    // Outputs of each matrix in this dispatch, and the row of its binding that the first one has.
    outputs_a: u32,
    outputs_b: u32,
    first_a: u32,
    first_b: u32,
    // Words of a row of each matrix in its rest plane.
    rest_a: u32,
    rest_b: u32,
    // Where the biases of those outputs start.
    bias_a: u32,
    bias_b: u32,
    // Where the input starts and how far its rows are apart, in elements of its binding.
    input_offset: u32,
    input_stride: u32,
    // Where each matrix's outputs start and how far rows are apart, in floats.
    output_a: u32,
    output_b: u32,
    output_stride: u32,
    // Rows that the input and the output have room for.
    most_rows: u32,
    // Where the sums of squares of a normed input's groups and the factors of its rows start, in vectors.
    squares: u32,
    factors: u32,
    // One over its columns, and what is added to the mean of their squares.
    inverse_width: f32,
    epsilon: f32,
    // Where the sums of squares of what is written as integers or halves start, in words.
    written_squares: u32,
    // Where the factors of a single row's groups of halves start, in vectors, and of those that are written, in words.
    group_factors: u32,
    written_factors: u32,
}

//@if ALIGNED
@group(0) @binding(6) var<storage, read> input: array<vec4<f32>>;
//@end
//@if UNALIGNED
@group(0) @binding(6) var<storage, read> input: array<f32>;
//@end
//@if INTEGERS
// [row][group][3]: the first 16 signed bytes of each group, the last 16, and their scale, the sums of both,
// and these together times the scale.
@group(0) @binding(6) var<storage, read> input: array<vec4<u32>>;
//@end
//@if HALVES
// [row][group][4]: eight halves each, and the factors of the rows; of a single row those of its groups, and their sums
// of squares.
@group(0) @binding(6) var<storage, read> input: array<vec4<u32>>;
//@end
@group(0) @binding(7) var<storage, read_write> output: array<$OUTPUT>;
//@if ASKED
@group(0) @binding(8) var<uniform> shape: Shape;
// The number of rows, in x.
@group(0) @binding(9) var<uniform> batch: vec4<u32>;

fn row_count() -> u32 {
    return min(batch.x, shape.most_rows);
}
//@end
//@if KNOWN
// A single row waits for whatever is read before its weights can be asked for.
const shape = Shape($SHAPE);

fn row_count() -> u32 {
    return min(1u, shape.most_rows);
}
//@end

//@if FLOATS
// Four columns of a row of the input; zero beyond its columns and for rows that are not there.
fn input_quad(row: u32, quad: u32) -> vec4<f32> {
    if (row >= row_count() || quad * 4u >= shape.columns) {
        return vec4<f32>(0.0);
    }
    //@if ALIGNED
    let value = input[shape.input_offset + row * shape.input_stride + quad];
    let column = vec4<u32>(quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    return select(vec4<f32>(0.0), value, column < vec4<u32>(shape.columns));
    //@end
    //@if UNALIGNED
    let at = shape.input_offset + row * shape.input_stride + quad * 4u;
    let last = shape.columns - 1u - quad * 4u;
    let value = vec4<f32>(input[at], input[at + min(1u, last)], input[at + min(2u, last)], input[at + min(3u, last)]);
    return select(vec4<f32>(0.0), value, vec4<u32>(0u, 1u, 2u, 3u) <= vec4<u32>(last));
    //@end
}

//@end
//@for m in LETTERS
fn write_$m(row: u32, index: u32, value: f32) {
    output[shape.output_$m + row * shape.output_stride + index] = value;
}

//@end
// What a sum becomes: multiplied with the factor of its row, which is 1 unless the input was normed, and its bias
// added. A sum times 1 is that sum.
//@if BIASA
@group(0) @binding(4) var<storage, read> bias_a: array<f32>;
fn biased_a(factor: f32, index: u32, sum: f32) -> f32 {
    return fma(factor, sum, bias_a[shape.bias_a + index]);
}
//@end
//@if NOBIASA
fn biased_a(factor: f32, index: u32, sum: f32) -> f32 {
    return factor * sum;
}
//@end
//@if BIASB
@group(0) @binding(5) var<storage, read> bias_b: array<f32>;
fn biased_b(factor: f32, index: u32, sum: f32) -> f32 {
    return fma(factor, sum, bias_b[shape.bias_b + index]);
}
//@end
//@if NOBIASB
fn biased_b(factor: f32, index: u32, sum: f32) -> f32 {
    return factor * sum;
}
//@end

// The factor of a row, as the norm has written it.
fn row_factor(row: u32) -> f32 {
    //@if NORMED
    return bitcast<f32>(input[shape.factors + row / 4u][row % 4u]);
    //@end
    //@if UNNORMED
    return 1.0;
    //@end
}

//@if GATED
fn gated(gate: f32, up: f32) -> f32 {
    return activated(gate, up);
}
//@end
