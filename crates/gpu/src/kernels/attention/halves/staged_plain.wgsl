
// What matrices loaded from workgroup memory are, for tests where there are none: what each lane has of them.

fn plain_key(at: u32) -> Right {
    let near = at + units_lane / 4u * KEY_FOURS + units_lane % 4u / 2u;
    return right_of(two_columns(near), two_columns(near + 8u * KEY_FOURS));
}

// Columns of a lane in a row of keys.
fn two_columns(at: u32) -> vec2<u32> {
    let first = vec4<f32>(staged_keys[at]);
    let second = vec4<f32>(staged_keys[at + 2u]);
    if units_lane % 2u == 0u {
        return vec2<u32>(pack2x16float(first.xy), pack2x16float(second.xy));
    }
    return vec2<u32>(pack2x16float(first.zw), pack2x16float(second.zw));
}

fn plain_value(at: u32) -> Right {
    let first = at + units_lane % 4u * 2u * VALUE_FOURS + units_lane / 16u;
    return right_of(two_rows(first), two_rows(first + 2u));
}

// Values of a lane's positions.
fn two_rows(at: u32) -> vec2<u32> {
    let own = units_lane / 4u % 4u;
    let near = vec2<f16>(staged_values[at][own], staged_values[at + VALUE_FOURS][own]);
    let far = vec2<f16>(staged_values[at + 8u * VALUE_FOURS][own], staged_values[at + 9u * VALUE_FOURS][own]);
    return vec2<u32>(pack2x16float(vec2<f32>(near)), pack2x16float(vec2<f32>(far)));
}
