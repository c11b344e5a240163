// out = for each query head, the softmax-weighted values of all positions up to the row's own.
//
// A workgroup takes one item: up to ROWS neighbouring rows of one sequence, HEAD_PART of the query heads
// that share one key head, and some spans of 256 positions. Keys and values are read once for all of
// these queries. Within a span:
//   score = one chain of fma over the dimensions, times SCALE; one thread per position;
//   weight = e^(score - the span's largest score);
//   result and sum of weights: eight chains of 32 positions, folded ((0+4)+(2+6))+((1+5)+(3+7)).
// Spans are merged in ascending order: here when the item has all of a row's spans, by merge.wgsl when it
// has one of several. What other rows share the item changes no bit.
//
// An item: first row, rows, first span, end of spans, where its partial results begin, and how far those
// of its next row are (0: it has all spans and writes `out`).

const QUERIES = ROWS * HEAD_PART;
const KEY_QUADS = (KEY_DIM + 3u) / 4u;
const VALUE_QUADS = (VALUE_DIM + 3u) / 4u;
// Quads of the value that threads take at once, in BLOCKS turns.
const QUAD_LANES = 32u;
const BLOCKS = (VALUE_QUADS + QUAD_LANES - 1u) / QUAD_LANES;
const SPAN = 256u;
const CHAIN = 32u;
// Keys or values that are asked for before the first of them is used.
const AHEAD = 8u;
const NOTHING = -3.0e38;

var<workgroup> queries: array<vec4<f32>, QUERIES * KEY_QUADS>;
// [query][position]: scores, then weights; zero where the query does not see the position.
var<workgroup> weights: array<f32, QUERIES * SPAN>;
var<workgroup> peaks: array<f32, SPAN>;
var<workgroup> chains: array<vec4<f32>, SPAN>;
var<workgroup> chain_sums: array<f32, QUERIES * 8u>;

// The largest score of each query, for all threads to read at `peaks[query * QUERY_THREADS]`.
const QUERY_THREADS = SPAN / PEAK_QUERIES;

fn find_peaks(lane: u32) {
    let query = lane / QUERY_THREADS;
    let first = lane % QUERY_THREADS;
    var peak = NOTHING;
    if query < QUERIES {
        for (var p = first; p < SPAN; p += QUERY_THREADS) {
            peak = max(peak, weights[query * SPAN + p]);
        }
    }
    peaks[lane] = peak;
    workgroupBarrier();
    for (var half = QUERY_THREADS / 2u; half > 0u; half /= 2u) {
        if first < half {
            peaks[lane] = max(peaks[lane], peaks[lane + half]);
        }
        workgroupBarrier();
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let item = step[ITEMS + LIST] + group.x * 6u;
    let first_row = step[item];
    let rows = step[item + 1u];
    let first_span = step[item + 2u];
    let end_span = step[item + 3u];
    let partial_at = step[item + 4u];
    let partial_stride = step[item + 5u];
    let kv_head = group.y / PARTS;
    let first_head = group.y % PARTS * HEAD_PART;
    let pages = step[record_of(first_row) + ROW_PAGES];
    // The last row sees most.
    let visible = step[record_of(first_row + rows - 1u) + ROW_POSITION] + 1u;

    for (var i = lane; i < QUERIES * KEY_QUADS; i += SPAN) {
        let q = i / KEY_QUADS;
        let quad = i % KEY_QUADS;
        let head = first_head + q % HEAD_PART;
        var x = vec4<f32>();
        if q / HEAD_PART < rows && head < GROUP {
            let at = (first_row + q / HEAD_PART) * QUERY_STRIDE + QUERY_OFFSET
                + (kv_head * GROUP + head) * KEY_DIM + 4u * quad;
            for (var c = 0u; c < min(4u, KEY_DIM - 4u * quad); c++) {
                x[c] = query[at + c];
            }
        }
        queries[i] = x;
    }
    // What each query sees: positions below this.
    var sees: array<u32, QUERIES>;
    for (var q = 0u; q < QUERIES; q++) {
        sees[q] = 0u;
        if q / HEAD_PART < rows && first_head + q % HEAD_PART < GROUP {
            sees[q] = step[record_of(first_row + q / HEAD_PART) + ROW_POSITION] + 1u;
        }
    }
    // The running softmax of each query over spans, kept by the threads of chain 0.
    var results: array<vec4<f32>, QUERIES * BLOCKS>;
    var largest: array<f32, QUERIES>;
    var sums: array<f32, QUERIES>;
    workgroupBarrier();

    for (var span = first_span; span < end_span; span++) {
        let start = span * SPAN;
        let position = start + lane;
        var scores: array<f32, QUERIES>;
        if position < visible {
            let page = step[pages + position / PAGE];
            let at = (page * KV_HEADS + kv_head) * PAGE * KEY_WORDS + position % PAGE;
            for (var first = 0u; first < KEY_QUADS; first += AHEAD) {
                var loaded: array<vec4<f32>, AHEAD>;
                for (var i = 0u; i < AHEAD; i++) {
                    loaded[i] = key_quad(at, min(first + i, KEY_QUADS - 1u));
                }
                for (var i = 0u; i < AHEAD; i++) {
                    if first + i >= KEY_QUADS {
                        continue;
                    }
                    let k = loaded[i];
                    for (var q = 0u; q < QUERIES; q++) {
                        let x = queries[q * KEY_QUADS + first + i];
                        scores[q] = fma(x.x, k.x, scores[q]);
                        scores[q] = fma(x.y, k.y, scores[q]);
                        scores[q] = fma(x.z, k.z, scores[q]);
                        scores[q] = fma(x.w, k.w, scores[q]);
                    }
                }
            }
        }
        for (var q = 0u; q < QUERIES; q++) {
            weights[q * SPAN + lane] = select(NOTHING, scores[q] * SCALE, position < sees[q]);
        }
        workgroupBarrier();
        find_peaks(lane);
        for (var q = 0u; q < QUERIES; q++) {
            let weight = exponential(weights[q * SPAN + lane] - peaks[q * QUERY_THREADS]);
            weights[q * SPAN + lane] = select(0.0, weight, position < sees[q]);
        }
        workgroupBarrier();

        let chain = lane / QUAD_LANES;
        let chain_start = start + chain * CHAIN;
        let chain_end = min(visible, chain_start + CHAIN);
        for (var block = 0u; block < BLOCKS; block++) {
            let quad = block * QUAD_LANES + lane % QUAD_LANES;
            var accumulated: array<vec4<f32>, QUERIES>;
            var chain_sum: array<f32, QUERIES>;
            if quad < VALUE_QUADS && chain_start < visible {
                // A chain lies within a page.
                let page = step[pages + chain_start / PAGE];
                let page_at = (page * KV_HEADS + kv_head) * PAGE;
                for (var first = chain_start; first < chain_end; first += AHEAD) {
                    var loaded: array<vec4<f32>, AHEAD>;
                    for (var i = 0u; i < AHEAD; i++) {
                        let p = min(first + i, chain_end - 1u);
                        loaded[i] = value_quad((page_at + p % PAGE) * VALUE_WORDS, quad);
                    }
                    for (var i = 0u; i < AHEAD; i++) {
                        if first + i >= chain_end {
                            continue;
                        }
                        for (var q = 0u; q < QUERIES; q++) {
                            let weight = weights[q * SPAN + first + i - start];
                            // A position that the query does not see must not count, be it infinite.
                            if weight > 0.0 {
                                accumulated[q] = fma(vec4<f32>(weight), loaded[i], accumulated[q]);
                                chain_sum[q] += weight;
                            }
                        }
                    }
                }
            }
            if quad == 0u {
                for (var q = 0u; q < QUERIES; q++) {
                    chain_sums[q * 8u + chain] = chain_sum[q];
                }
            }
            for (var q = 0u; q < QUERIES; q++) {
                chains[lane] = accumulated[q];
                workgroupBarrier();
                if chain == 0u && start < sees[q] {
                    let even = (chains[lane] + chains[lane + 128u]) + (chains[lane + 64u] + chains[lane + 192u]);
                    let odd = (chains[lane + 32u] + chains[lane + 160u]) + (chains[lane + 96u] + chains[lane + 224u]);
                    let result = even + odd;
                    let even_sum = (chain_sums[q * 8u] + chain_sums[q * 8u + 4u])
                        + (chain_sums[q * 8u + 2u] + chain_sums[q * 8u + 6u]);
                    let odd_sum = (chain_sums[q * 8u + 1u] + chain_sums[q * 8u + 5u])
                        + (chain_sums[q * 8u + 3u] + chain_sums[q * 8u + 7u]);
                    let merged = merge(
                        Softmax(largest[q], sums[q]),
                        Softmax(peaks[q * QUERY_THREADS], even_sum + odd_sum),
                        span == first_span,
                    );
                    let r = q * BLOCKS + block;
                    results[r] = fma(results[r], vec4<f32>(merged.before), result * merged.after);
                    if block == BLOCKS - 1u {
                        largest[q] = merged.softmax.largest;
                        sums[q] = merged.softmax.sum;
                    }
                }
                workgroupBarrier();
            }
        }
    }

    if lane >= QUAD_LANES {
        return;
    }
    for (var q = 0u; q < QUERIES; q++) {
        if first_span * SPAN >= sees[q] {
            continue;
        }
        let row = q / HEAD_PART;
        let head = kv_head * GROUP + first_head + q % HEAD_PART;
        for (var block = 0u; block < BLOCKS; block++) {
            let quad = block * QUAD_LANES + lane;
            if quad >= VALUE_QUADS {
                continue;
            }
            let result = results[q * BLOCKS + block];
            if partial_stride == 0u {
                let at = (first_row + row) * OUT_STRIDE + OUT_OFFSET + head * VALUE_DIM + 4u * quad;
                let inverse = 1.0 / sums[q];
                for (var c = 0u; c < min(4u, VALUE_DIM - 4u * quad); c++) {
                    out[at + c] = result[c] * inverse;
                }
            } else {
                let at = ((partial_at + row * partial_stride) * HEADS + head) * (VALUE_QUADS * 4u + 2u);
                for (var c = 0u; c < 4u; c++) {
                    partials[at + 4u * quad + c] = result[c];
                }
                if quad == 0u {
                    partials[at + VALUE_QUADS * 4u] = largest[q];
                    partials[at + VALUE_QUADS * 4u + 1u] = sums[q];
                }
            }
        }
    }
}
