// Columns $NAME[at + 4 · quad] to the third after it: `at` counts from the beginning of the array, and a
// quad past WIDTH columns reads what is there of the last one.

fn $NAME_quad(at: u32, quad: u32) -> vec4<f32> {
    //@if ALIGNED
    return $NAME[at / 4u + min(quad, (WIDTH - 1u) / 4u)];
    //@end
    //@if UNALIGNED
    let last = WIDTH - 1u;
    let c = at + min(4u * quad, last);
    let rest = last - min(4u * quad, last);
    return vec4<f32>($NAME[c], $NAME[c + min(1u, rest)], $NAME[c + min(2u, rest)], $NAME[c + min(3u, rest)]);
    //@end
}
//@if WRITES

fn put_$NAME(at: u32, quad: u32, values: vec4<f32>) {
    //@if ALIGNED
    if 4u * quad < WIDTH {
        $NAME[at / 4u + quad] = values;
    }
    //@end
    //@if UNALIGNED
    for (var i = 0u; i < 4u; i++) {
        if 4u * quad + i < WIDTH {
            $NAME[at + 4u * quad + i] = values[i];
        }
    }
    //@end
}
//@end
