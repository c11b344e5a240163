// What lanes.wgsl says, where there are no subgroups of 32.
var<workgroup> words_of_lanes: array<u32, ALL_FRAGMENTS / 8u>;

fn exchanged(word: u32, bits: u32) -> u32 {
    let own = units_subgroup * 32u + units_lane;
    workgroupBarrier();
    words_of_lanes[own] = word;
    workgroupBarrier();
    return words_of_lanes[own ^ bits];
}
