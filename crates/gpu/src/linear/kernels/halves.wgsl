// A linear layer in halves on matrix units, for any number of rows.
//
// A subgroup of 32 computes 32 sums of each of $TILEROWS rows: two tiles of 16 outputs, or of a gated layer a tile of
// gates and one of their ups. It unpacks its weights into fragments itself and loads its inputs as fragments, so that
// nothing is staged and nobody waits for others. A lane has eight neighbouring columns of each group of 32, the first
// four of which are its part of one product, the others of the next.
//
// A single row has groups of columns that are halves with factors of their own, which every workgroup brings to the
// largest of them; with NORMS the row is that of an RMS norm but for its factor, which follows from the sums of squares of
// the groups. With WRITES results, 32 of a workgroup, are written in the same way: those of a gated layer as they are,
// others (ADDS) once they are added to what the output has, with their sum of squares and times the weights of the norm
// that follows.
//
// Segments of 512 columns are chains of their own, which are added up in ascending order: by the subgroup that computes
// them all, or where the $SPLIT subgroups of a tile share them, by way of workgroup memory.

//@if FIRST
const UNITS_OF_SEGMENT = 4u;
const near_rows = 0u;
const far_rows = 8u;

// The row of an element of a lane's sums, counted from the tile's first.
fn row_of(fragment: u32, element: u32, word: u32) -> u32 {
    return 16u * fragment + 2u * word + 8u * (element / 2u) + element % 2u;
}

//@if SINGLE
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

// The group of this workgroup.
var<workgroup> results: array<vec4<f32>, 8>;

fn put_result(own: u32, value: f32) {
    results[own / 4u][own % 4u] = value;
}

fn write_group(block: u32, thread: u32) {
    if (thread < 16u) {
        var largest = 0u;
        //@for q in EIGHT
        largest = max(largest, largest_of(results[$q]));
        //@end
        let factor = half_factor(largest);
        written[block * 16u + thread] = halves_of_quad(results[thread / 2u], one_over(factor))[thread % 2u];
        if (thread == 0u) {
            written[shape.written_factors + block] = bitcast<u32>(factor);
            //@if ADDS
            written[shape.written_squares + block] = bitcast<u32>(sum_squares());
            //@end
        }
    }
}

//@end
//@if ADDS
@group(0) @binding(5) var<storage, read> norm_weights: array<f32>;

// What the output has of the group once the results are added.
var<workgroup> sums: array<vec4<f32>, 8>;

// What the output had at a place and 16 after it, and the norm's weights there.
fn before(index: u32) -> vec4<f32> {
    let last = shape.outputs_a - 1u;
    let first = min(index, last);
    let second = min(index + 16u, last);
    return vec4<f32>(
        output[shape.output_a + first], output[shape.output_a + second], norm_weights[first], norm_weights[second],
    );
}

fn put_sum(own: u32, value: f32, weight: f32) {
    sums[own / 4u][own % 4u] = value;
    put_result(own, value * weight);
}

fn sum_squares() -> f32 {
    let first = vec4<f32>(
        quad_squares(sums[0]), quad_squares(sums[1]), quad_squares(sums[2]), quad_squares(sums[3]),
    );
    let last = vec4<f32>(
        quad_squares(sums[4]), quad_squares(sums[5]), quad_squares(sums[6]), quad_squares(sums[7]),
    );
    return folded_quads(first, last);
}

//@end
//@if SHARED
// The same of a place among parts.
fn row_of_part(i: u32) -> u32 {
    return row_of(i / $FRAGMENTPARTS % $ROWFRAGMENTCOUNT, i % $SIDEPARTS / 32u, i % 4u);
}

// And the output in the first tile.
fn output_of_part(i: u32, block: u32) -> u32 {
    let own = i % 32u / 4u + i % $FRAGMENTPARTS / $SIDEPARTS * 8u;
    return block * $OUTPUTS + i / ($ROWFRAGMENTCOUNT * $FRAGMENTPARTS) * $OWNOUTPUTS + own;
}

// [subgroup][fragment of rows][tile][side][element][lane]
var<workgroup> parts: array<f32, $PARTS>;

//@end
//@end
fn body_$BODY(block: u32, block_row: u32, thread: u32, subgroup: u32, lane: u32) {
    let word = lane % 4u;
    let own = lane / 4u;
    let part = subgroup / $ACROSS;
    let first_output = block * $OUTPUTS + subgroup % $ACROSS * $OWNOUTPUTS;
    let first_row = block_row * $TILEROWS;
    let last = min(row_count(), first_row + $TILEROWS);
    let last_row = max(row_count(), 1u) - 1u;
    //@if SEVERAL
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    let $h_at_$r = min(first_row + 16u * $r + own + $h_rows, last_row) * shape.input_stride + word;
    //@end
    //@end
    //@end

    // The tiles of weights as they lie in their bindings.
    let tile_0 = (shape.first_$FIRSTMATRIX + min(first_output, shape.outputs_$FIRSTMATRIX - 1u)) / 16u;
    let tile_1 = (shape.first_$SECONDMATRIX + min(first_output + $SECONDTILE, shape.outputs_$SECONDMATRIX - 1u)) / 16u;

    // Of few rows, loops are short enough to be written out by compilers, of many they are not.
    let units = $UNITS;
    let segments = (units + UNITS_OF_SEGMENT - 1u) / UNITS_OF_SEGMENT;
    //@if SHARED
    let rounds = (segments + $SPLIT - 1u) / $SPLIT;
    //@for e in ENTRIES
    var first_$e = 0.0;
    var second_$e = 0.0;
    //@end
    //@end
    //@if ALONE
    let rounds = segments;
    //@for r in ROWFRAGMENTS
    var total_0_$r = no_totals();
    var total_1_$r = no_totals();
    //@end
    //@end
    // What is multiplied next: weights and inputs of as many groups as are loaded ahead.
    var unit = min(part * UNITS_OF_SEGMENT, units - 1u);
    var raw_0: Raw_$FIRSTMATRIX;
    var raw_1: Raw_$SECONDMATRIX;
    //@if SEVERAL
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    var next_$h_$r: array<vec4<u32>, $AHEAD>;
    //@end
    //@end
    //@end
    for (var turn = 0u; turn < $FIRSTTURNS; turn++) {
        //@for g in FIRSTGROUPS
        load_$FIRSTMATRIX(&raw_0, tile_0, unit * 4u + $g, $g, lane);
        load_$SECONDMATRIX(&raw_1, tile_1, unit * 4u + $g, $g, lane);
        //@if SEVERAL
        //@for r in ROWFRAGMENTS
        //@for h in INPUTSIDES
        next_$h_$r[$g] = input[$h_at_$r + (unit * 4u + $g) * 4u];
        //@end
        //@end
        //@end
        //@end
    }
    //@if SHARED
    // The factors of what this thread is going to write.
    //@for e in ENTRIES
    let factor_$e = factors_$BODY($e * $ALLTHREADS + thread, block, first_row, last);
    //@if ADDS
    let before_$e = before(output_of_part($e * $ALLTHREADS + thread, block));
    //@end
    //@end
    //@end
    //@if SINGLE
    let single_factor = convert(thread, lane);
    //@end
    for (var round = 0u; round < rounds; round++) {
        // Those beyond the last segment are computed again, and not used.
        let segment = min(round * $SPLIT + part, segments - 1u);
        let end = min((segment + 1u) * UNITS_OF_SEGMENT, units);
        let next_segment = min(segment + $SPLIT, segments - 1u) * UNITS_OF_SEGMENT;
        //@for r in ROWFRAGMENTS
        var chain_0_$r = no_sums();
        var chain_1_$r = no_sums();
        //@end
        for (var current = segment * UNITS_OF_SEGMENT; current < end; current++) {
            unit = select(next_segment, current + 1u, current + 1u < end);
            for (var turn = 0u; turn < $TURNS; turn++) {
                //@for g in GROUPS
                {
                    let following = select(current * 4u, unit * 4u - 4u, $g + $AHEAD >= 4u) + $g + $AHEAD;
                    let near_0 = terms_$FIRSTMATRIX(&raw_0, $g, $g % $AHEAD, 0u, word);
                    let far_0 = terms_$FIRSTMATRIX(&raw_0, $g, $g % $AHEAD, 1u, word);
                    //@for s in TWO
                    let left_0_$s = left_of(
                        weights_$FIRSTMATRIX(&raw_0, near_0, $g, $g % $AHEAD, 0u, u32($s)),
                        weights_$FIRSTMATRIX(&raw_0, far_0, $g, $g % $AHEAD, 1u, u32($s)),
                    );
                    //@end
                    load_$FIRSTMATRIX(&raw_0, tile_0, following, $g % $AHEAD, lane);
                    let near_1 = terms_$SECONDMATRIX(&raw_1, $g, $g % $AHEAD, 0u, word);
                    let far_1 = terms_$SECONDMATRIX(&raw_1, $g, $g % $AHEAD, 1u, word);
                    //@for s in TWO
                    let left_1_$s = left_of(
                        weights_$SECONDMATRIX(&raw_1, near_1, $g, $g % $AHEAD, 0u, u32($s)),
                        weights_$SECONDMATRIX(&raw_1, far_1, $g, $g % $AHEAD, 1u, u32($s)),
                    );
                    //@end
                    load_$SECONDMATRIX(&raw_1, tile_1, following, $g % $AHEAD, lane);
                    //@for r in ROWFRAGMENTS
                    {
                        //@if SINGLE
                        let near = row_halves[(current * 4u + $g) * 4u + word];
                        //@end
                        //@if SEVERAL
                        let near = next_near_$r[$g % $AHEAD];
                        //@end
                        //@if BOTHSIDES
                        let far = next_far_$r[$g % $AHEAD];
                        //@end
                        //@if ONESIDE
                        let far = near;
                        //@end
                        //@if SEVERAL
                        //@for h in INPUTSIDES
                        next_$h_$r[$g % $AHEAD] = input[$h_at_$r + following * 4u];
                        //@end
                        //@end
                        let first = right_of(near.xy, far.xy);
                        chain_0_$r = multiplied(left_0_0, first, chain_0_$r);
                        chain_1_$r = multiplied(left_1_0, first, chain_1_$r);
                        let second = right_of(near.zw, far.zw);
                        chain_0_$r = multiplied(left_0_1, second, chain_0_$r);
                        chain_1_$r = multiplied(left_1_1, second, chain_1_$r);
                    }
                    //@end
                }
                //@end
            }
        }
        //@if ALONE
        //@for r in ROWFRAGMENTS
        total_0_$r = added(total_0_$r, chain_0_$r);
        total_1_$r = added(total_1_$r, chain_1_$r);
        //@end
        //@end
        //@if SHARED
        //@for r in ROWFRAGMENTS
        {
            let first = sums_of(chain_0_$r);
            let second = sums_of(chain_1_$r);
            let at = (subgroup * $ROWFRAGMENTCOUNT + $r) * 2u * $FRAGMENTPARTS + lane;
            //@for e in ELEMENTS
            if (first_row + row_of($r, $e, word) < last) {
                parts[at + $e * 32u] = first.near[$e];
                parts[at + $e * 32u + $SIDEPARTS] = first.far[$e];
                parts[at + $e * 32u + $FRAGMENTPARTS] = second.near[$e];
                parts[at + $e * 32u + $FRAGMENTPARTS + $SIDEPARTS] = second.far[$e];
            }
            //@end
        }
        //@end
        workgroupBarrier();
        // A thread adds up what is at the same place in both tiles.
        let added_up = min(segments - round * $SPLIT, $SPLIT);
        //@for e in ENTRIES
        {
            let i = $e *  $ALLTHREADS + thread;
            if (i < $TILEPARTS / 2u && first_row + row_of_part(i) < last) {
                var at = i / $FRAGMENTPARTS * 2u * $FRAGMENTPARTS + i % $FRAGMENTPARTS;
                for (var p = 0u; p < added_up; p++) {
                    first_$e += parts[at];
                    second_$e += parts[at + $FRAGMENTPARTS];
                    at += $TILEPARTS;
                }
            }
        }
        //@end
        if (round + 1u < rounds) {
            workgroupBarrier();
        }
        //@end
    }

    //@if ALONE
    let near_factors = row_factors_$BODY(first_output + own);
    let far_factors = row_factors_$BODY(first_output + own + 8u);
    //@for r in ROWFRAGMENTS
    {
        let first = totals_of(total_0_$r);
        let second = totals_of(total_1_$r);
        //@for e in FOUR
        {
            let row = first_row + row_of($r, $e, word);
            if (row < last) {
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
    //@if SEVERAL
    let own_factor = 1.0;
    //@end
    //@for e in ENTRIES
    {
        let i = $e * $ALLTHREADS + thread;
        let row = first_row + row_of_part(i);
        if (i < $TILEPARTS / 2u && row < last) {
            //@if SETS
            put_$BODY(row, output_of_part(i, block), own_factor * factor_$e, first_$e, second_$e);
            //@end
            //@if GATEDWRITES
            {
                let index = output_of_part(i, block);
                let factors = own_factor * factor_$e;
                let value = gated(biased_a(factors.x, index, first_$e), biased_b(factors.y, index, second_$e));
                write_a(row, index, value);
                put_result(index % 32u, value);
            }
            //@end
            //@if ADDS
            let index = output_of_part(i, block);
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
    if (first_row < last) {
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
    return row_factor(row) * row_factors_$BODY(output_of_part(i, block));
}

//@end
//@if SETS
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
