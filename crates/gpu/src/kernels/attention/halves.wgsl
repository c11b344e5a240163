// What the kernels of attention in halves have in common.
//
// A subgroup of 32 has 16 queries, as the left matrices of its products. Keys are the right matrices of scores, 16
// positions each; weights become left matrices where the scores were, and values are right matrices. Nothing is staged:
// what a lane loads is what it has of a matrix. A product has 16 neighbouring positions, of which a lane has two and the two
// that are eight further, so that lanes side by side load keys side by side. Values are in another order: in a product are
// two of every eight, 16 of every 64.

const SPAN = 64u;
const NOTHING = -3.0e38;
const NOT_A_NUMBER = 0x7fc00000u;
// What a lane has of its queries: eight dimensions of every 32, of a query (near) and of the one eight further (far).
const near_query = 0u;
const far_query = 8u;
$NUMBERS

fn exchanged_float(x: f32, bits: u32) -> f32 {
    return bitcast<f32>(exchanged(bitcast<u32>(x), bits));
}

// The largest and the sum of what the four lanes of a query have.
fn largest_of_four(x: f32) -> f32 {
    let two = max(x, exchanged_float(x, 1u));
    return max(two, exchanged_float(two, 2u));
}

fn sum_of_four(x: f32) -> f32 {
    let two = x + exchanged_float(x, 1u);
    return two + exchanged_float(two, 2u);
}

fn largest_bits_of_four(x: u32) -> u32 {
    let two = max(x, exchanged(x, 1u));
    return max(two, exchanged(two, 2u));
}

// The positions of a lane in a product, which begin here: two, and two eight further.
fn positions_of(first: u32) -> vec4<u32> {
    return vec4<u32>(first) + vec4<u32>(0u, 1u, 8u, 9u);
}

// All bits that lanes of the same positions have.
fn joined_bits(x: u32) -> u32 {
    let two = x | exchanged(x, 4u);
    let four = two | exchanged(two, 8u);
    return four | exchanged(four, 16u);
}

// Four dimensions of a query that begins at `at`; zeros past its end.
fn query_quad(at: u32, quad: u32) -> vec4<f32> {
    var x = vec4<f32>();
    //@if ALIGNED
    if 4u * quad < KEY_DIM {
        x = query[at / 4u + quad] * SCALE;
    }
    //@end
    //@if UNALIGNED
    for (var c = 0u; c < 4u; c++) {
        if 4u * quad + c < KEY_DIM {
            x[c] = query[at + 4u * quad + c] * SCALE;
        }
    }
    //@end
    return x;
}

// What a lane has of a query in the first or second product of 32 dimensions.
fn own_query(at: u32, group: u32, product: u32, word: u32) -> vec4<f32> {
    //@ifnot STAGED
    return query_quad(at, 8u * group + 2u * word + product);
    //@end
    //@if STAGED
    let near = query_quad(at, 8u * group + word / 2u * 2u + product);
    let far = query_quad(at, 8u * group + word / 2u * 2u + product + 4u);
    return select(vec4<f32>(near.zw, far.zw), vec4<f32>(near.xy, far.xy), word % 2u == 0u);
    //@end
}

//@if LIMITED
// The first position that a row sees.
fn first_seen(position: u32) -> u32 {
    //@if CAUSAL
    let end = position + 1u;
    return max(end - min(end, WINDOW), position / CHUNK * CHUNK);
    //@end
    //@if BOTHWAYS
    return position - min(position, WINDOW / 2u);
    //@end
}

// Where the positions end that it sees.
fn end_of_seen(record: u32) -> u32 {
    let position = step[record + ROW_POSITION];
    //@if CAUSAL
    return position + 1u;
    //@end
    //@if BOTHWAYS
    return min(step[record + ROW_LENGTH], position + 1u + min(WINDOW / 2u, 0x7fffffffu - position));
    //@end
}

//@end
fn halves_of_four(x: vec4<f32>, up: f32) -> vec4<f16> {
    return vec4<f16>(select(vec4<f32>(), x * up, vec4<bool>(up > 0.0)));
}

fn bits_of_halves(x: vec4<f16>) -> vec2<u32> {
    let floats = vec4<f32>(x);
    return vec2<u32>(pack2x16float(floats.xy), pack2x16float(floats.zw));
}

fn halves_of_bits(x: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(halves_of(x.x), halves_of(x.y));
}

// The lower or upper halves of words.
fn lower(first: u32, second: u32) -> u32 {
    return (first & 0xffffu) | (second << 16u);
}

fn upper(first: u32, second: u32) -> u32 {
    return (first >> 16u) | (second & 0xffff0000u);
}

// Two values of four positions, each of whose words has both, as a right matrix: the values are its rows.
fn right_of_values(first: u32, second: u32, third: u32, fourth: u32) -> Right {
    let near = vec2<u32>(lower(first, second), lower(third, fourth));
    let far = vec2<u32>(upper(first, second), upper(third, fourth));
    return right_of(near, far);
}

// Whether any of eight halves is infinite or not a number.
fn is_bad(x: vec4<u32>) -> bool {
    let carried = ((x & vec4<u32>(0x7c007c00u)) + vec4<u32>(0x04000400u)) & vec4<u32>(0x80008000u);
    return any(carried != vec4<u32>());
}

// By what queries are halves, from the largest magnitudes that the lanes of each have, and what their scores are to be
// multiplied with.
//@text SCALES
    //@for h in SIDES
    //@if PRODUCTS
    let $h_factor = half_factor(largest_bits_of_four($h_largest));
    let $h_up = one_over($h_factor);
    //@end
    //@if SCORED
    // Products become scores before anything is done to them.
    let $h_power = half_factor(largest_bits_of_four($h_largest));
    let $h_up = one_over($h_power);
    let $h_factor = 1.0;
    //@end
    //@if FADING
    let $h_slope = slope($h_head);
    //@end
    //@end
//@end
// The queries as halves in registers.
//@text QUERIES
    $NOQUERIES
    //@for h in SIDES
    let $h_at = $h_row * QUERY_STRIDE + QUERY_OFFSET + $h_head * KEY_DIM;
    var $h_largest = 0u;
    for (var g = 0u; g < KEY_GROUPS; g++) {
        let first = largest_of(query_quad($h_at, 8u * g + 2u * word));
        $h_largest = max($h_largest, max(first, largest_of(query_quad($h_at, 8u * g + 2u * word + 1u))));
    }
    //@end
$SCALES
    for (var g = 0u; g < $KEYTURNS; g++) {
        //@for g in KEYGROUPS
        first_query$g = left_of(
            halves_of_four(own_query(near_at, number$g, 0u, word), near_up),
            //@if BOTHSIDES
            halves_of_four(own_query(far_at, number$g, 0u, word), far_up),
            //@end
            //@if ONESIDE
            vec4<f16>(),
            //@end
        );
        second_query$g = left_of(
            halves_of_four(own_query(near_at, number$g, 1u, word), near_up),
            //@if BOTHSIDES
            halves_of_four(own_query(far_at, number$g, 1u, word), far_up),
            //@end
            //@if ONESIDE
            vec4<f16>(),
            //@end
        );
        //@end
    }
//@end
