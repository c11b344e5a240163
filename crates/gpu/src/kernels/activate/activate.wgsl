// out = activation(gate) · up, or activation(gate) without GATED. One thread per column, a workgroup row
// per row of the batch.

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if column >= WIDTH {
        return;
    }
    let x = gate[id.y * GATE_STRIDE + GATE_OFFSET + column];
    let at = id.y * OUT_STRIDE + OUT_OFFSET + column;
    if GATED {
        out[at] = activated(x, up[id.y * UP_STRIDE + UP_OFFSET + column]);
    } else {
        out[at] = activation(x);
    }
}
