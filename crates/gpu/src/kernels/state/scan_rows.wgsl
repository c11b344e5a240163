//@for r in ROWS
let row_$r = step[record + ($FIRST + $r) * RECORD];
let at_$r = passed + ($FIRST + $r) * LANES;
var begun_$r = vec3<f32>(added[at_$r], kept[at_$r], sums[at_$r]);
if stage == 0u {
    begun_$r = beginning(row_$r, channel, head);
}
var sum_$r = begun_$r.z;
//@end
//@for q in QUADS
//@for r in ROWS
//@if ALIGNED
let b_$r_$q = b[(row_$r * B_STRIDE + B_OFFSET + first_column) / 4u + $q];
let c_$r_$q = c[(row_$r * C_STRIDE + C_OFFSET + first_column) / 4u + $q];
//@end
//@if UNALIGNED
let b_$r_$q = vec2<f32>(b[row_$r * B_STRIDE + B_OFFSET + first_column + $q]);
let c_$r_$q = vec2<f32>(c[row_$r * C_STRIDE + C_OFFSET + first_column + $q]);
//@end
//@end
//@for e in ELEMENTS
//@for r in ROWS
held_$q_$e = fma(held_$q_$e, share_of(first + $q * $WIDTH + $e, head, begun_$r.y), b_$r_$q[$e] * begun_$r.x);
sum_$r = fma(held_$q_$e, c_$r_$q[$e], sum_$r);
//@end
//@end
//@end
//@for r in ROWS
if stage == 0u {
    added[at_$r] = begun_$r.x;
    kept[at_$r] = begun_$r.y;
}
if stage < STAGES - 1u {
    sums[at_$r] = sum_$r;
} else if is_there {
    out[row_$r * OUT_STRIDE + OUT_OFFSET + channel] = sum_$r;
}
//@end
