// What linear layers and experts in halves share: a subgroup of 32 has the sums of two tiles of 16 outputs (or of a gated
// layer a tile of either matrix) with each of $TILEROWS rows. It unpacks its weights into fragments itself and loads its
// inputs as fragments, or from workgroup memory where they are a row of its own, so that nothing is staged and no subgroup
// waits for others. A lane has eight neighbouring columns of each group of 32, the first four of which are its part of one
// product, the others of the next.
//
// Segments of 512 columns are chains of their own, which are added up in ascending order: by the subgroup that computes
// them all, or where the $SPLIT subgroups of a tile share them, by way of workgroup memory.

const UNITS_OF_SEGMENT = 4u;
const near_rows = 0u;
const far_rows = 8u;

// The row of an element of a lane's sums, counted from the tile's first.
fn row_of(fragment: u32, element: u32, word: u32) -> u32 {
    return 16u * fragment + 2u * word + 8u * (element / 2u) + element % 2u;
}

//@if SHARED
// [subgroup][fragment of rows][tile][side][element][lane]
var<workgroup> parts: array<f32, $PARTS>;

// The row of a place among the parts of a subgroup.
fn row_of_part(i: u32) -> u32 {
    return row_of(i / $FRAGMENTPARTS % $ROWFRAGMENTCOUNT, i % $SIDEPARTS / 32u, i % 4u);
}

// The output there, in the first tile, counted from the workgroup's first.
fn output_of_part(i: u32) -> u32 {
    let own = i % 32u / 4u + i % $FRAGMENTPARTS / $SIDEPARTS * 8u;
    return i / ($ROWFRAGMENTCOUNT * $FRAGMENTPARTS) * $OWNOUTPUTS + own;
}

//@end
