// The write of one head's key and value to the cache. Both are in units of four values (a quad), the last
// one filled up with zeros; what a quad is stored as, and how large a stored vector is, the type says
// (KEY_WORDS, VALUE_WORDS, quad_words).
//
// keys: [page][head][word][position], so that threads for neighbouring positions read neighbouring words.
// values: [page][head][position][word], so that those for neighbouring values do.

fn write_key_and_value(lane: u32, row: u32, kv_head: u32) {
    let record = record_of(row);
    let position = step[record + ROW_POSITION];
    let page = step[step[record + ROW_PAGES] + position / PAGE];
    let block = (page * KV_HEADS + kv_head) * PAGE;
    let slot = position % PAGE;

    let key_at = row * KEY_STRIDE + KEY_OFFSET + kv_head * KEY_DIM;
    for (var c = lane; c < ROOM; c += THREADS) {
        head[c] = 0.0;
        if c < KEY_DIM {
            head[c] = key[key_at + c];
        }
    }
    workgroupBarrier();
    if KEY_NORM {
        norm(lane, false, KEY_EPSILON);
    }
    if PAIRS > 0u {
        rotate(lane, row);
    }
    for (var w = lane; w < KEY_WORDS; w += THREADS) {
        keys[block * KEY_WORDS + w * PAGE + slot] = stored_word(w, KEY_DIM);
    }
    workgroupBarrier();

    let value_at = row * VALUE_STRIDE + VALUE_OFFSET + kv_head * VALUE_DIM;
    for (var c = lane; c < ROOM; c += THREADS) {
        head[c] = 0.0;
        if c < VALUE_DIM {
            head[c] = value[value_at + c];
        }
    }
    workgroupBarrier();
    for (var w = lane; w < VALUE_WORDS; w += THREADS) {
        values[(block + slot) * VALUE_WORDS + w] = stored_word(w, VALUE_DIM);
    }
}
