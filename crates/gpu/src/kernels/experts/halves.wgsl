// The product of experts' matrices and rows in halves on matrix units, as gleed_model::arithmetic::dot_halves defines it.
// The bits of a row are those that any other number of rows gives.
//
// The matrices of all experts are packed as one, of which this binding has the rows FIRST .. FIRST + COUNT; outputs of
// other rows are left alone. A workgroup has some outputs of one expert for up to $TILEROWS of the rows that chose it: a
// tile. Each subgroup of 32 unpacks two tiles of 16 outputs, or with PAIRED one of either matrix, into fragments itself.
// A *pair* is a row and one of its slots, counted over all rows.
//@if LISTED
// Which pairs a tile has is in a list that is sorted by expert.
//@end
//@if DIRECT
// Every pair is a tile of its own, whose row becomes halves here.
//@end
//
// Segments of 512 columns are chains of their own, which are added up in ascending order: by the subgroup that computes
// them all, or where the $SPLIT subgroups of a tile share them, by way of workgroup memory.

const UNITS_OF_SEGMENT = 4u;
const near_rows = 0u;
const far_rows = 8u;

//@if SHARED
// [subgroup][fragment of rows][tile][side][element][lane]
var<workgroup> parts: array<f32, $PARTS>;

//@end
// The row of an element of a lane's sums, counted from the tile's first.
fn row_of(fragment: u32, element: u32, word: u32) -> u32 {
    return 16u * fragment + 2u * word + 8u * (element / 2u) + element % 2u;
}

// The expert, where its pairs begin in the list, how many of them are the tile's, and a number that is not small.
//@if LISTED
fn tile_at(number: u32) -> vec4<u32> {
    return vec4<u32>(tiles[number * 4u], tiles[number * 4u + 1u], tiles[number * 4u + 2u], tiles[number * 4u + 3u]);
}

fn pair_at(tile: vec4<u32>, i: u32) -> u32 {
    return tiles[LIST + tile.y + i];
}

//@end
//@if INORDER
fn tile_at(number: u32) -> vec4<u32> {
    let each = (counted.x + $TILEROWS - 1u) / $TILEROWS;
    let first = number % each * $TILEROWS;
    return vec4<u32>(number / each, first, min(counted.x - first, $TILEROWS), counted.x * UNITS);
}

fn pair_at(tile: vec4<u32>, i: u32) -> u32 {
    return (tile.y + i) * SLOTS + tile.x;
}

//@end
//@if DIRECT
fn tile_at(number: u32) -> vec4<u32> {
    let slot = number % SLOTS;
    //@if CHOSEN
    let chosen = u32(choice[number / SLOTS * CHOICE_STRIDE + CHOICE_OFFSET + slot]);
    return vec4<u32>(min(chosen, EXPERTS - 1u), number, 1u, UNITS);
    //@end
    //@if ALLEXPERTS
    return vec4<u32>(slot, number, 1u, UNITS);
    //@end
}

fn pair_at(tile: vec4<u32>, i: u32) -> u32 {
    return tile.y;
}

// The row as halves.
var<workgroup> row_halves: array<vec4<u32>, $ROOM>;
var<workgroup> peaks: array<u32, $SUBGROUPS>;

//@if ALIGNED
fn quad_of(at: u32, quad: u32) -> vec4<f32> {
    let column = 4u * quad + vec4<u32>(0u, 1u, 2u, 3u);
    let is_there = column < vec4<u32>(COLUMNS);
    return select(vec4<f32>(), x[(at + min(4u * quad, COLUMNS - 1u)) / 4u], is_there);
}

//@end
//@if UNALIGNED
fn value_of(at: u32, column: u32) -> f32 {
    return select(0.0, x[at + min(column, COLUMNS - 1u)], column < COLUMNS);
}

fn quad_of(at: u32, quad: u32) -> vec4<f32> {
    let column = 4u * quad;
    return vec4<f32>(
        value_of(at, column), value_of(at, column + 1u), value_of(at, column + 2u), value_of(at, column + 3u),
    );
}

//@end
// Makes halves of the row that begins here, and returns its factor.
fn convert(at: u32, thread: u32, subgroup: u32, lane: u32) -> f32 {
    var largest = 0u;
    //@for p in PIECES
    let quad_$p = quad_of(at, $p * $THREADS + thread);
    var group_$p = largest_of(quad_$p);
    //@for b in GROUPBITS
    group_$p = max(group_$p, exchanged(group_$p, $b));
    //@end
    largest = max(largest, group_$p);
    //@end
    //@for b in OTHERBITS
    largest = max(largest, exchanged(largest, $b));
    //@end
    if (lane == 0u) {
        peaks[subgroup] = largest;
    }
    workgroupBarrier();
    for (var s = 0u; s < $SUBGROUPS; s++) {
        largest = max(largest, peaks[s]);
    }
    let factor = half_factor(largest);
    let up = one_over(factor);
    //@for p in PIECES
    {
        let i = $p * $THREADS + thread;
        let group = half_factor(group_$p);
        let halves = rounded_twice(quad_$p, one_over(group), group * up, at >> 31u);
        if (i < 2u * $ROOM) {
            row_halves[i / 2u][i % 2u * 2u] = halves.x;
            row_halves[i / 2u][i % 2u * 2u + 1u] = halves.y;
        }
    }
    //@end
    workgroupBarrier();
    return factor;
}

//@end
//@if TILED
// Which row of the input a pair has, and its factor.
fn input_row(pair: u32) -> u32 {
    return pair / PAIRS_OF_ROW;
}

fn factor_of(pair: u32) -> f32 {
    let row = input_row(pair);
    return bitcast<f32>(input[FACTORS + row / 4u][row % 4u]);
}

//@end
// The tile of 16 packed rows that one of them is in, as it lies in the binding.
fn packed_tile(entry: u32) -> u32 {
    return min(max(entry, FIRST) - FIRST, COUNT - 1u) / 16u;
}

fn is_output(entry: u32, base: u32) -> bool {
    return entry - base < OUTPUTS && entry - FIRST < COUNT;
}

fn biased_a(entry: u32, factor: f32, sum: f32) -> f32 {
    let factors = factor * weight_factor_a(entry - FIRST);
    //@if BIASA
    return fma(factors, sum, bias_a[entry]);
    //@end
    //@if NOBIASA
    return factors * sum;
    //@end
}

//@if PAIRED
fn biased_b(entry: u32, factor: f32, sum: f32) -> f32 {
    let factors = factor * weight_factor_b(entry - FIRST);
    //@if BIASB
    return fma(factors, sum, bias_b[entry]);
    //@end
    //@if NOBIASB
    return factors * sum;
    //@end
}

//@end
// Writes sums of a pair: those at the same place of both tiles.
fn put(pair: u32, entry: u32, base: u32, factor: f32, first: f32, second: f32) {
    let at = pair / SLOTS * OUT_STRIDE + OUT_OFFSET + pair % SLOTS * OUTPUTS - base;
    //@if SINGLE
    if (is_output(entry, base)) {
        out[at + entry] = biased_a(entry, factor, first);
    }
    if (is_output(entry + 16u, base)) {
        out[at + entry + 16u] = biased_a(entry + 16u, factor, second);
    }
    //@end
    //@if PAIRED
    if (is_output(entry, base)) {
        let first_result = biased_a(entry, factor, first);
        let second_result = biased_b(entry, factor, second);
        out[at + entry] = first_result;
        out[at + entry + SLOTS * OUTPUTS] = second_result;
        //@if ACTIVATES
        let to = pair / SLOTS * HIDDEN_STRIDE + HIDDEN_OFFSET + pair % SLOTS * OUTPUTS - base;
        hidden[to + entry] = activated(first_result, second_result);
        //@end
    }
    //@end
}

@compute @workgroup_size($ALLTHREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    let tile = tile_at(workgroup.y);
    if (tile.z > 0u) {
        multiply(tile, workgroup.x, thread, subgroup, lane);
    }
}

fn multiply(tile: vec4<u32>, block: u32, thread: u32, subgroup: u32, lane: u32) {
    let word = lane % 4u;
    let own = lane / 4u;
    let part = subgroup / $ACROSS;
    // Outputs as rows of all experts' matrices: the first of this expert, and of the tile in which that is.
    let base = tile.x * OUTPUTS;
    let block_entry = base / 16u * 16u + block * $BLOCKOUTPUTS;
    let first_entry = block_entry + subgroup % $ACROSS * $OWNOUTPUTS;
    //@if TILED
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    let $h_at_$r = input_row(pair_at(tile, min(16u * $r + own + $h_rows, tile.z - 1u))) * INPUT_STRIDE + word;
    //@end
    //@end
    //@end
    let tile_0 = packed_tile(first_entry);
    let tile_1 = packed_tile(first_entry + $SECONDTILE);

    // Of few rows, loops are short enough to be written out by compilers, of many they are not.
    let units = $UNITCOUNT;
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
    var raw_0: Raw_a;
    var raw_1: Raw_$SECONDMATRIX;
    //@if TILED
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    var next_$h_$r: array<vec4<u32>, $AHEAD>;
    //@end
    //@end
    //@end
    for (var turn = 0u; turn < $FIRSTTURNS; turn++) {
        //@for g in FIRSTGROUPS
        load_a(&raw_0, tile_0, unit * 4u + $g, $g, lane);
        load_$SECONDMATRIX(&raw_1, tile_1, unit * 4u + $g, $g, lane);
        //@if TILED
        //@for r in ROWFRAGMENTS
        //@for h in INPUTSIDES
        next_$h_$r[$g] = input[$h_at_$r + (unit * 4u + $g) * 4u];
        //@end
        //@end
        //@end
        //@end
    }
    //@if DIRECT
    let row = tile.y / SLOTS;
    let factor = convert(row * X_STRIDE + X_OFFSET + tile.y % SLOTS * SLOT_STRIDE, thread, subgroup, lane);
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
                    let near_0 = terms_a(&raw_0, $g, $g % $AHEAD, 0u, word);
                    let far_0 = terms_a(&raw_0, $g, $g % $AHEAD, 1u, word);
                    //@for s in TWO
                    let left_0_$s = left_of(
                        weights_a(&raw_0, near_0, $g, $g % $AHEAD, 0u, u32($s)),
                        weights_a(&raw_0, far_0, $g, $g % $AHEAD, 1u, u32($s)),
                    );
                    //@end
                    load_a(&raw_0, tile_0, following, $g % $AHEAD, lane);
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
                        //@if DIRECT
                        let near = row_halves[(current * 4u + $g) * 4u + word];
                        //@end
                        //@if TILED
                        let near = next_near_$r[$g % $AHEAD];
                        //@end
                        //@if BOTHSIDES
                        let far = next_far_$r[$g % $AHEAD];
                        //@end
                        //@if ONESIDE
                        let far = near;
                        //@end
                        //@if TILED
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
            if (row_of($r, $e, word) < tile.z) {
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
            let i = $e * $THREADS + thread;
            if (i < $TILEPARTS / 2u) {
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
    //@for r in ROWFRAGMENTS
    {
        let first = totals_of(total_0_$r);
        let second = totals_of(total_1_$r);
        //@for e in FOUR
        {
            let row = row_of($r, $e, word);
            if (row < tile.z) {
                let pair = pair_at(tile, row);
                let factor = factor_of(pair);
                put(pair, first_entry + own, base, factor, first.near[$e], second.near[$e]);
                put(pair, first_entry + own + 8u, base, factor, first.far[$e], second.far[$e]);
            }
        }
        //@end
    }
    //@end
    //@end
    //@if SHARED
    //@for e in ENTRIES
    {
        let i = $e * $THREADS + thread;
        let row = row_of(i / $FRAGMENTPARTS % $ROWFRAGMENTCOUNT, i % $SIDEPARTS / 32u, i % 4u);
        if (i < $TILEPARTS / 2u && row < tile.z) {
            let pair = pair_at(tile, row);
            //@if TILED
            let factor = factor_of(pair);
            //@end
            let across = i / ($ROWFRAGMENTCOUNT * $FRAGMENTPARTS) * $OWNOUTPUTS;
            let entry = block_entry + across + i % 32u / 4u + i % $FRAGMENTPARTS / $SIDEPARTS * 8u;
            put(pair, entry, base, factor, first_$e, second_$e);
        }
    }
    //@end
    //@end
}
