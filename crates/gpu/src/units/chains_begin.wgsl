// Of few rows, loops are short enough to be written out by compilers, of many they are not.
let units = $UNITCOUNT;
let segments = (units + UNITS_OF_SEGMENT - 1u) / UNITS_OF_SEGMENT;
//@if SHARED
let rounds = (segments + $SPLIT - 1u) / $SPLIT;
//@for e in ENTRIES
var first_$e = 0.0;
var second_$e = 0.0;
//@end
//@end
//@ifnot SHARED
let rounds = segments;
//@for r in ROWFRAGMENTS
var total_0_$r = no_totals();
var total_1_$r = no_totals();
//@end
//@end
// What is multiplied next: weights and inputs of as many groups as are loaded ahead.
var unit = min(part * UNITS_OF_SEGMENT, units - 1u);
var raw_0: Raw_$FIRSTMATRIX;
var raw_1: Raw_$SECONDMATRIX;
//@ifnot OWNROW
//@for r in ROWFRAGMENTS
//@for h in INPUTSIDES
var next_$h_$r: array<vec4<u32>, $AHEAD>;
//@end
//@end
//@end
for (var turn = 0u; turn < $FIRSTTURNS; turn++) {
    //@for g in FIRSTGROUPS
    load_$FIRSTMATRIX(&raw_0, tile_0, unit * 4u + $g, $g, lane);
    load_$SECONDMATRIX(&raw_1, tile_1, unit * 4u + $g, $g, lane);
    //@ifnot OWNROW
    //@for r in ROWFRAGMENTS
    //@for h in INPUTSIDES
    next_$h_$r[$g] = input[$h_at_$r + (unit * 4u + $g) * 4u];
    //@end
    //@end
    //@end
    //@end
}
