// A linear layer in halves on matrix units, for any number of rows: units/chains.wgsl has what is multiplied how.
//
// A single row has groups of columns that are halves with factors of their own, which every workgroup brings to the
// largest of them; with NORMS the row is that of an RMS norm but for its factor, which follows from the sums of squares of
// the groups. With WRITES results, 32 of a workgroup, are written in the same way: those of a gated layer as they are,
// others (ADDS) once they are added to what the output has, with their sum of squares and times the weights of the norm
// that follows.

//@if FIRST
$CHAINS

//@if OWNROW
// The row as halves.
var<workgroup> row_halves: array<vec4<u32>, $ROOM>;

//@if NORMS
var<workgroup> lane_squares: array<vec4<f32>, 8>;

fn four_squares(row: u32, groups: u32, four: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(input[shape.squares + four]);
}

//@end
// Brings the row's groups to one factor, and returns it. Each subgroup finds it by itself.
fn convert(thread: u32, lane: u32) -> f32 {
    let groups = (shape.columns + 31u) / 32u;
    //@for p in PIECES
    let piece_$p = min($p * $ALLTHREADS + thread, $ROOM - 1u);
    let halves_$p = input[piece_$p];
    let factor_$p = bitcast<f32>(input[shape.group_factors + piece_$p / 16u][piece_$p / 4u % 4u]);
    //@end
    var largest = 0u;
    for (var four = lane; 4u * four < groups; four += 32u) {
        let is_there = 4u * four + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(groups);
        largest = max(largest, largest_part(select(vec4<u32>(), input[shape.group_factors + four], is_there)));
    }
    //@if NORMS
    if (thread < 32u) {
        lane_squares[thread / 4u][thread % 4u] = lane_sum(0u, groups, thread);
    }
    //@end
    //@for b in BITS
    largest = max(largest, exchanged(largest, $b));
    //@end
    let factor = bitcast<f32>(largest);
    let up = one_over(factor);
    //@for p in PIECES
    if ($p * $ALLTHREADS + thread < $ROOM) {
        // What fills up the last groups is whatever others have left there.
        let ratio = select(0.0, factor_$p * up, piece_$p / 4u < groups);
        row_halves[piece_$p] = vec4<u32>(halves_of_row(halves_$p.xy, ratio), halves_of_row(halves_$p.zw, ratio));
    }
    //@end
    workgroupBarrier();
    return factor;
}

//@end
//@if WRITES
// [group][16]: two halves each; the factors of groups, and their sums of squares.
@group(0) @binding(10) var<storage, read_write> written: array<u32>;

const WRITTEN_FACTORS = shape.written_factors;
const WRITTEN_SQUARES = shape.written_squares;
$PUTGROUP
//@end
//@if ADDS
@group(0) @binding(5) var<storage, read> norm_weights: array<f32>;

// What the output had at a place and 16 after it, and the norm's weights there.
fn before(index: u32) -> vec4<f32> {
    let last = shape.outputs_a - 1u;
    let first = min(index, last);
    let second = min(index + 16u, last);
    return vec4<f32>(
        output[shape.output_a + first], output[shape.output_a + second], norm_weights[first], norm_weights[second],
    );
}

//@end
//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let word = lane % 4u;
    let own = lane / 4u;
    let part = subgroup / $ACROSS;
    let first_output = block * $OUTPUTS + subgroup % $ACROSS * $OWNOUTPUTS;
    let first_row = block_row * $TILEROWS;
    let last = min(row_count(), first_row + $TILEROWS);
    let rows_there = last - min(first_row, last);
    //@ifnot OWNROW
    let last_row = max(row_count(), 1u) - 1u;
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    let $h_at_$r = min(first_row + 16u * $r + own + $h_rows, last_row) * shape.input_stride + word;
    //@end
    //@end
    //@end

    // The tiles of weights as they lie in their bindings.
    let tile_0 = (shape.first_$FIRSTMATRIX + min(first_output, shape.outputs_$FIRSTMATRIX - 1u)) / 16u;
    let tile_1 = (shape.first_$SECONDMATRIX + min(first_output + $SECONDTILE, shape.outputs_$SECONDMATRIX - 1u)) / 16u;

    $CHAINSBEGIN
    //@if SHARED
    // The factors of what this thread is going to write.
    //@for e in ENTRIES
    let factor_$e = factors_$BODY($e * $ALLTHREADS + thread, block, first_row, last);
    //@if ADDS
    let before_$e = before(block * $OUTPUTS + output_of_part($e * $ALLTHREADS + thread));
    //@end
    //@end
    //@end
    //@if OWNROW
    let single_factor = convert(thread, lane);
    //@end
    $CHAINSLOOP

    //@ifnot SHARED
    let near_factors = row_factors_$BODY(first_output + own);
    let far_factors = row_factors_$BODY(first_output + own + 8u);
    //@for r in ROWFRAGMENTS
    {
        let first = totals_of(total_0_$r);
        let second = totals_of(total_1_$r);
        //@for e in FOUR
        {
            if (row_of($r, $e, word) < rows_there) {
                let row = first_row + row_of($r, $e, word);
                let factor = row_factor(row);
                put_$BODY(row, first_output + own, factor * near_factors, first.near[$e], second.near[$e]);
                put_$BODY(row, first_output + own + 8u, factor * far_factors, first.far[$e], second.far[$e]);
            }
        }
        //@end
    }
    //@end
    //@end
    //@if SHARED
    //@if NORMS
    let own_factor = single_factor * folded_factor(0u, shape.inverse_width, shape.epsilon);
    //@end
    //@if UNNORMEDSINGLE
    let own_factor = single_factor;
    //@end
    //@ifnot OWNROW
    let own_factor = 1.0;
    //@end
    //@for e in ENTRIES
    {
        let i = $e * $ALLTHREADS + thread;
        if (i < $TILEPARTS / 2u && row_of_part(i) < rows_there) {
            let row = first_row + row_of_part(i);
            //@ifnot WRITES
            put_$BODY(row, block * $OUTPUTS + output_of_part(i), own_factor * factor_$e, first_$e, second_$e);
            //@end
            //@if GATEDWRITES
            {
                let index = block * $OUTPUTS + output_of_part(i);
                let factors = own_factor * factor_$e;
                let value = gated(biased_a(factors.x, index, first_$e), biased_b(factors.y, index, second_$e));
                write_a(row, index, value);
                put_result(index % 32u, value);
            }
            //@end
            //@if ADDS
            let index = block * $OUTPUTS + output_of_part(i);
            let factors = own_factor * factor_$e;
            let first = before_$e.x + biased_a(factors.x, index, first_$e);
            let second = before_$e.y + biased_a(factors.y, index + 16u, second_$e);
            write_a(row, index, first);
            write_a(row, index + 16u, second);
            put_sum(index % 32u, first, before_$e.z);
            put_sum(index % 32u + 16u, second, before_$e.w);
            //@end
        }
    }
    //@end
    //@if WRITES
    workgroupBarrier();
    if (rows_there > 0u) {
        write_group(block, thread);
    }
    //@end
    //@end
}

// What sums of the first tile at a place, and of the second, are multiplied with, but for the factors of rows.
fn row_factors_$BODY(index: u32) -> vec2<f32> {
    let first = shape.first_$FIRSTMATRIX + min(index, shape.outputs_$FIRSTMATRIX - 1u);
    let second = shape.first_$SECONDMATRIX + min(index + $SECONDTILE, shape.outputs_$SECONDMATRIX - 1u);
    return vec2<f32>(weight_factor_$FIRSTMATRIX(first), weight_factor_$SECONDMATRIX(second));
}

//@if SHARED
fn factors_$BODY(i: u32, block: u32, first_row: u32, last: u32) -> vec2<f32> {
    let row = min(first_row + row_of_part(i), max(last, 1u) - 1u);
    return row_factor(row) * row_factors_$BODY(block * $OUTPUTS + output_of_part(i));
}

//@end
//@ifnot WRITES
// Writes a sum of the first tile and the one at its place in the second.
fn put_$BODY(row: u32, index: u32, factors: vec2<f32>, first: f32, second: f32) {
    //@if GATED
    if (index < shape.outputs_$BODY) {
        write_a(row, index, gated(biased_a(factors.x, index, first), biased_b(factors.y, index, second)));
    }
    //@end
    //@if UNGATED
    if (index < shape.outputs_$BODY) {
        write_$BODY(row, index, biased_$BODY(factors.x, index, first));
    }
    if (index + 16u < shape.outputs_$BODY) {
        write_$BODY(row, index + 16u, biased_$BODY(factors.y, index + 16u, second));
    }
    //@end
}
//@end
