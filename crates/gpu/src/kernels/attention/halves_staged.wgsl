// The subgroups share the keys and values of a span: those of the next one are on their way while one is multiplied. A row
// of either is a position; of 32 dimensions of a key those of the first product come before those of the second. Rows are
// eight halves longer than they have to be, so that eight of them begin in different banks.

const KEY_FOURS = KEY_DIM / 4u + 2u;
const VALUE_FOURS = VALUE_DIM / 4u + 2u;
var<workgroup> staged_keys: array<vec4<f16>, PAGE * KEY_FOURS>;
var<workgroup> staged_values: array<vec4<f16>, PAGE * VALUE_FOURS>;
// A bit for each position whose value is infinite or not a number, of spans that some do not see: two spans in turn.
var<workgroup> bad_positions: array<atomic<u32>, 4>;

fn staged_key(at: u32) -> Right {
    return coopLoad<Right>(&staged_keys[at], KEY_FOURS);
}

fn staged_value(at: u32) -> Right {
    return coopLoadT<Right>(&staged_values[at], VALUE_FOURS);
}

fn four_halves(words: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(halves_of(words.x), halves_of(words.y));
}

// A bit for each of the first positions of a span.
fn first_bits(count: u32) -> vec2<u32> {
    let counts = min(vec2<u32>(count, max(count, 32u) - 32u), vec2<u32>(32u));
    return select((vec2<u32>(1u) << (counts % 32u)) - 1u, vec2<u32>(0xffffffffu), counts == vec2<u32>(32u));
}
