// The write of one head's key or value to the cache, in units of four words, the last one filled up with
// zeros, and scales behind them, where the type has any: see cache.rs. What a word is, the type says
// (stored_word). `head` has the values. The pages of the cache's group are in the row's words CACHE_PAGES and after it.

// Where the row's blocks begin, in positions of one head.
fn block_of(row: u32, kv_head: u32) -> u32 {
    return (step[record_of(row) + CACHE_PAGES + 1u] * KV_HEADS + kv_head) * PAGE;
}

fn write_key(lane: u32, row: u32, kv_head: u32) {
    let slot = step[record_of(row) + ROW_POSITION] % PAGE;
    let start = block_of(row, kv_head) * (KEY_WORDS + KEY_SCALES);
    for (var w = lane; w < KEY_WORDS + KEY_SCALES; w += THREADS) {
        var at = (w / 4u * PAGE + slot) * 4u + w % 4u;
        if w >= KEY_WORDS {
            at = w * PAGE + slot;
        }
        keys[start + at] = stored_word(w, KEY_WORDS, KEY_DIM);
    }
}

fn write_value(lane: u32, row: u32, kv_head: u32) {
    let slot = step[record_of(row) + ROW_POSITION] % PAGE;
    let start = block_of(row, kv_head) * (VALUE_WORDS + VALUE_SCALES);
    let value_at = row * VALUE_STRIDE + VALUE_OFFSET + kv_head * VALUE_DIM;
    for (var c = lane; c < ROOM; c += THREADS) {
        var x = 0.0;
        if c < VALUE_DIM {
            x = value[value_at + c];
        }
        head[c] = x;
    }
    workgroupBarrier();
    for (var w = lane; w < VALUE_WORDS + VALUE_SCALES; w += THREADS) {
        var at = slot * VALUE_WORDS + w;
        if w >= VALUE_WORDS {
            at = VALUE_WORDS * PAGE + slot * VALUE_SCALES + w - VALUE_WORDS;
        }
        values[start + at] = stored_word(w, VALUE_WORDS, VALUE_DIM);
    }
}
