// out = x, moved towards y by a share for each column, with each row of shares. One thread per column of the result, a
// workgroup row per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < WIDTH {
        let column = id.x % PART;
        let own = x[id.y * X_STRIDE + X_OFFSET + column];
        let other = y[id.y * Y_STRIDE + Y_OFFSET + column];
        out[id.y * OUT_STRIDE + OUT_OFFSET + id.x] = fma(shares[id.x], other - own, own);
    }
}
