// The product of experts' matrices and rows in halves on matrix units, as gleed_model::arithmetic::dot_halves defines it.
// The bits of a row are those that any other number of rows gives.
//
// The matrices of all experts are packed as one, of which this binding has the rows FIRST .. FIRST + COUNT; outputs of
// other rows are left alone. A workgroup has some outputs of one expert for up to $TILEROWS of the rows that chose it: a
// tile, multiplied as units/chains.wgsl has it.
// A *pair* is a row and one of its slots, counted over all rows.
//@if LISTED
// Which pairs a tile has is in a list that is sorted by expert.
//@end
//@if OWNROW
// Every pair is a tile of its own, whose row becomes halves here.
//@end
//@if NORMED
// The row is that of an RMS norm of a single one, which is done here: the sums of squares of its groups are there.
//@if CHOOSES
// Which experts it uses is found here, too, by every workgroup.
//@end
//@end
//@if SUMMED
// A workgroup has the same outputs of all experts of a single row, a team of subgroups for each of them, and adds up what they
// give in the order of their ranks.
//@if ADDS
// The sum is added to the residual, and written for the norm that follows as a linear layer writes it.
//@end
//@end

$CHAINS

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
//@if OWNROW
fn tile_at(number: u32) -> vec4<u32> {
    let slot = number % SLOTS;
    //@if CHOSEN
    let expert = u32(choice[number / SLOTS * CHOICE_STRIDE + CHOICE_OFFSET + slot]);
    return vec4<u32>(min(expert, EXPERTS - 1u), number, 1u, UNITS);
    //@end
    //@if CHOOSES
    return vec4<u32>(min(experts[slot], EXPERTS - 1u), number, 1u, UNITS);
    //@end
    //@if NOTCHOSEN
    return vec4<u32>(slot, number, 1u, UNITS);
    //@end
}

fn pair_at(tile: vec4<u32>, i: u32) -> u32 {
    return tile.y;
}

// The rows of all teams as halves.
var<workgroup> row_halves: array<vec4<u32>, $ROOM * $ACROSS>;
var<workgroup> peaks: array<u32, $SUBGROUPS>;

//@if ALIGNED
fn quad_of(at: u32, quad: u32) -> vec4<f32> {
    let column = 4u * quad + vec4<u32>(0u, 1u, 2u, 3u);
    let is_there = column < vec4<u32>(COLUMNS);
    return select(vec4<f32>(), x[(at + min(4u * quad, COLUMNS - 1u)) / 4u], is_there);
}

//@end
//@ifnot ALIGNED
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
//@if NORMED
var<workgroup> lane_squares: array<vec4<f32>, 8>;

fn four_squares(row: u32, groups: u32, four: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(squares[SQUARES + four]);
}

fn norm_quad(quad: u32) -> vec4<f32> {
    let first = min(4u * quad, COLUMNS - 4u);
    //@if ALIGNED
    return norm_weights[first / 4u];
    //@end
    //@ifnot ALIGNED
    return vec4<f32>(
        norm_weights[first], norm_weights[first + 1u], norm_weights[first + 2u], norm_weights[first + 3u],
    );
    //@end
}

//@end
// Makes halves of the team's row, which begins here, and returns its factor.
fn convert(at: u32, thread: u32, subgroup: u32, lane: u32) -> f32 {
    let team = subgroup % $ACROSS;
    let member = subgroup / $ACROSS * 32u + lane;
    var largest = 0u;
    //@for p in PIECES
    var quad_$p = quad_of(at, $p * $TEAMTHREADS + member);
    //@if NORMED
    let norm_$p = norm_quad($p * $TEAMTHREADS + member);
    //@end
    //@end
    //@if NORMED
    if (thread < 32u) {
        lane_squares[thread / 4u][thread % 4u] = lane_sum(0u, COLUMNS / 32u, thread);
    }
    workgroupBarrier();
    let norm_factor = folded_factor(0u, INVERSE_WIDTH, EPSILON);
    //@end
    //@for p in PIECES
    //@if NORMED
    quad_$p = quad_$p * norm_factor * norm_$p;
    //@end
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
    for (var s = team; s < $SUBGROUPS; s += $ACROSS) {
        largest = max(largest, peaks[s]);
    }
    let factor = half_factor(largest);
    let up = one_over(factor);
    //@for p in PIECES
    {
        let i = $p * $TEAMTHREADS + member;
        let group = half_factor(group_$p);
        let halves = rounded_twice(quad_$p, one_over(group), group * up, at >> 31u);
        if (i < 2u * $ROOM) {
            let to = team * $ROOM + i / 2u;
            row_halves[to][i % 2u * 2u] = halves.x;
            row_halves[to][i % 2u * 2u + 1u] = halves.y;
        }
    }
    //@end
    //@if SUMMED
    if (member == 0u) {
        team_factors[team] = factor;
    }
    //@end
    workgroupBarrier();
    return factor;
}

//@end
//@if SUMMED
var<workgroup> team_factors: array<f32, SLOTS>;
// [slot][output]
var<workgroup> given: array<f32, SLOTS * 32u>;

//@if ADDS
$PUTGROUP

//@end
//@end
//@ifnot OWNROW
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
    //@ifnot BIASA
    return factors * sum;
    //@end
}

//@if PAIRED
fn biased_b(entry: u32, factor: f32, sum: f32) -> f32 {
    let factors = factor * weight_factor_b(entry - FIRST);
    //@if BIASB
    return fma(factors, sum, bias_b[entry]);
    //@end
    //@ifnot BIASB
    return factors * sum;
    //@end
}

//@end
//@ifnot SUMMED
// Writes sums of a pair: those at the same place of both tiles.
fn put(pair: u32, entry: u32, base: u32, factor: f32, first: f32, second: f32) {
    let at = pair / SLOTS * OUT_STRIDE + OUT_OFFSET + pair % SLOTS * OUTPUTS - base;
    //@ifnot PAIRED
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

//@end

@compute @workgroup_size($THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    begin_units(subgroup, lane);
    //@if CHOOSES
    choose(SCORES_OFFSET, thread);
    if (workgroup.x == 0u && workgroup.y == 0u) {
        for (var rank = thread; rank < USED; rank += THREADS) {
            choice[CHOICE_OFFSET + rank] = f32(experts[rank]);
            choice[CHOICE_OFFSET + USED + rank] = chosen[rank];
        }
    }
    //@end
    //@ifnot SUMMED
    let tile = tile_at(workgroup.y);
    //@end
    //@if SUMMED
    let tile = tile_at(subgroup % SLOTS);
    //@end
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
    //@ifnot SUMMED
    let first_entry = block_entry + subgroup % $ACROSS * $OWNOUTPUTS;
    //@end
    //@if SUMMED
    let first_entry = block_entry;
    let row_at = subgroup % SLOTS * $ROOM;
    let column = block * 32u + thread % 32u;
    //@if ADDS
    let before = residual[RESIDUAL_OFFSET + column];
    let norm_weight = norm_weights[column];
    //@end
    //@end
    //@ifnot OWNROW
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    let $h_at_$r = input_row(pair_at(tile, min(16u * $r + own + $h_rows, tile.z - 1u))) * INPUT_STRIDE + word;
    //@end
    //@end
    //@end
    let rows_there = tile.z;
    let tile_0 = packed_tile(first_entry);
    let tile_1 = packed_tile(first_entry + $SECONDTILE);

    $CHAINSBEGIN
    //@if OWNROW
    let row = tile.y / SLOTS;
    let factor = convert(row * X_STRIDE + X_OFFSET + tile.y % SLOTS * SLOT_STRIDE, thread, subgroup, lane);
    //@end
    $CHAINSLOOP

    //@ifnot SHARED
    //@for r in ROWFRAGMENTS
    {
        let first = totals_of(total_0_$r);
        let second = totals_of(total_1_$r);
        //@for e in FOUR
        {
            let row = row_of($r, $e, word);
            if (row < rows_there) {
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
    //@if SUMMED
    //@for e in ENTRIES
    {
        let i = $e * $ALLTHREADS + thread;
        if (i < $TILEPARTS / 2u && row_of_part(i) < rows_there) {
            let to = output_of_part(i);
            let entry = tile_at(to / 32u).x * OUTPUTS + block * 32u + to % 32u;
            given[to] = biased_a(entry, team_factors[to / 32u], first_$e);
            given[to + 16u] = biased_a(entry + 16u, team_factors[to / 32u], second_$e);
        }
    }
    //@end
    workgroupBarrier();
    if (thread < 32u) {
        var sum = 0.0;
        for (var slot = 0u; slot < SLOTS; slot++) {
            var weight = 1.0;
            //@if WEIGHTED
            weight = choice[CHOICE_OFFSET + SLOTS + slot];
            //@end
            sum = fma(weight, given[slot * 32u + thread], sum);
        }
        //@if ADDS
        given[thread] = sum;
        //@end
        //@ifnot ADDS
        out[OUT_OFFSET + column] = sum;
        //@end
    }
    //@if ADDS
    // Compilers must not add the residual before the last expert.
    workgroupBarrier();
    if (thread < 32u) {
        let value = before + given[thread];
        residual[RESIDUAL_OFFSET + column] = value;
        put_sum(thread, value, norm_weight);
    }
    workgroupBarrier();
    write_group(block, thread);
    //@end
    //@end
    //@if PUTS
    //@for e in ENTRIES
    {
        let i = $e * $ALLTHREADS + thread;
        if (i < $TILEPARTS / 2u && row_of_part(i) < rows_there) {
            let pair = pair_at(tile, row_of_part(i));
            //@ifnot OWNROW
            let factor = factor_of(pair);
            //@end
            put(pair, block_entry + output_of_part(i), base, factor, first_$e, second_$e);
        }
    }
    //@end
    //@end
}
