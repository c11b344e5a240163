// Merges the partial results of a row's spans in ascending order, as attention.wgsl does with spans that
// it has itself. A workgroup per head and row whose spans were split; a thread per value.
//
// A merge: the row, where its partial results begin, how many spans it has.

const ROOM = (VALUE_DIM + 3u) / 4u * 4u + 2u;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let record = step[MERGES + LIST] + group.x * 3u;
    let row = step[record];
    let first = step[record + 1u];
    let spans = step[record + 2u];
    let head = group.y;
    for (var c = lane; c < VALUE_DIM; c += 64u) {
        var result = 0.0;
        var whole = Softmax();
        for (var span = 0u; span < spans; span++) {
            let at = ((first + span) * HEADS + head) * ROOM;
            let merged = merge(whole, Softmax(partials[at + ROOM - 2u], partials[at + ROOM - 1u]), span == 0u);
            result = fma(result, merged.before, partials[at + c] * merged.after);
            whole = merged.softmax;
        }
        let inverse = 1.0 / whole.sum;
        out[row * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM + c] = result * inverse;
    }
}
