// out = the experts that a row uses, in order of rank, then their weights. One workgroup per row of the batch.

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    choose(workgroup.y * SCORES_STRIDE + SCORES_OFFSET, thread);
    let at = workgroup.y * OUT_STRIDE + OUT_OFFSET;
    for (var rank = thread; rank < USED; rank += THREADS) {
        out[at + rank] = f32(experts[rank]);
        out[at + USED + rank] = chosen[rank];
    }
}
