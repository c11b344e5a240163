// The entry of every linear kernel: a workgroup for each block of outputs and of rows; the blocks of a second,
// joined matrix follow those of the first.
@compute @workgroup_size($THREADS)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    //@if SUBGROUPS
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) lane: u32,
    //@end
) {
    //@if SUBGROUPS
    begin_units(subgroup, lane);
    //@end
    //@if ROWSFIRST
    let block = workgroup.y;
    let block_row = workgroup.x;
    //@end
    //@if OUTPUTSFIRST
    let block = workgroup.x;
    let block_row = workgroup.y;
    //@end
    //@if JOINED
    let blocks = (shape.outputs_a + $OUTPUTS - 1u) / $OUTPUTS;
    if (block >= blocks) {
        body_b(block - blocks, block_row, $LANES);
        return;
    }
    //@end
    body_a(block, block_row, $LANES);
}
