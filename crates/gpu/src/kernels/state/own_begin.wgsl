    let slot = step[sequence];
    //@for i in STATE
    var held_$i = 0.0;
    if slot != NONE {
        held_$i = state[(slot * DEPTH + $i) * CHANNELS + channel];
    }
    //@end
