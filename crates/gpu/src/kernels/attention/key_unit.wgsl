// A unit of a key, whose page and head begin at `at`, in units; the last one again beyond it.
fn key_unit(at: u32, unit: u32, slot: u32) -> vec4<u32> {
    return keys[at + min(unit, UNITS - 1u) * PAGE + slot];
}

// Its scale.
fn key_scale(at: u32, unit: u32, slot: u32) -> f32 {
    //@if SCALED
    let own = min(unit, UNITS - 1u);
    let word = (KEY_WORDS + own / 4u) * PAGE + slot;
    let scales = unpack2x16float(keys[at + word / 4u][word % 4u]);
    return select(scales.x, scales.y, own / 2u % 2u == 1u);
    //@end
    //@if UNSCALED
    return 1.0;
    //@end
}
