        for (var s = 0u; s < step[record + 2u]; s++) {
            let to = step[step[record + 1u] + s];
            //@for i in STATE
            state[(to * DEPTH + $i) * CHANNELS + channel] = held_$i;
            //@end
        }
