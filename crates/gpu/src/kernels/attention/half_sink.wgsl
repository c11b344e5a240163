// A sink among scores that are multiplied with log2(e), as gleed_model::arithmetic::half_sink defines it.
fn half_sink(sink: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(sink * 1.442695040888963) & 0xfffffffeu);
}
