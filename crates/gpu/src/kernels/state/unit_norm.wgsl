// x = x / √(Σx² + ε) of each head, or as long as another row. One thread per head, a workgroup row per row of the batch.

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= HEADS {
        return;
    }
    let first = id.y * X_STRIDE + X_OFFSET + id.x * WIDTH;
    var sum = 0.0;
    for (var i = 0u; i < WIDTH; i++) {
        sum = fma(x[first + i], x[first + i], sum);
    }
    var scale = inverseSqrt(sum + EPSILON);
    if LIKE {
        let like_first = id.y * LIKE_STRIDE + LIKE_OFFSET;
        var squares = 0.0;
        for (var i = 0u; i < WIDTH; i++) {
            squares = fma(like[like_first + i], like[like_first + i], squares);
        }
        scale *= sqrt(squares);
    }
    for (var i = 0u; i < WIDTH; i++) {
        x[first + i] *= scale;
    }
}
