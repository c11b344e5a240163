// Which rows meet which expert: the pairs of rows and slots in a list by expert, and tiles, each of which has up to
// TILE_ROWS pairs of one expert. A tile is four words: its expert, where its pairs begin in the list, how many they are,
// and a number that is not small. Tiles that are left over have no pairs. One workgroup does all of it; in what order the
// pairs of an expert are does not matter.

const THREADS = 256u;
const EACH = (EXPERTS + THREADS - 1u) / THREADS;

// How many pairs each expert has, then where its next one goes.
var<workgroup> counts: array<atomic<u32>, EXPERTS>;
// Pairs and tiles of the experts of each thread and of those before it, in every other turn.
var<workgroup> before: array<array<vec2<u32>, THREADS>, 2>;

fn expert_of(pair: u32) -> u32 {
    let row = pair / SLOTS;
    return min(u32(choice[row * CHOICE_STRIDE + CHOICE_OFFSET + pair % SLOTS]), EXPERTS - 1u);
}

fn put_tile(number: u32, expert: u32, first: u32, pairs: u32) {
    tiles[number * 4u] = expert;
    tiles[number * 4u + 1u] = first;
    tiles[number * 4u + 2u] = pairs;
    tiles[number * 4u + 3u] = 0xffffffffu;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) thread: u32) {
    let pairs = counted.x * SLOTS;
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        atomicStore(&counts[expert], 0u);
    }
    workgroupBarrier();
    for (var pair = thread; pair < pairs; pair += THREADS) {
        atomicAdd(&counts[expert_of(pair)], 1u);
    }
    workgroupBarrier();
    var own = vec2<u32>();
    for (var i = 0u; i < EACH; i++) {
        let expert = thread * EACH + i;
        if expert < EXPERTS {
            let count = atomicLoad(&counts[expert]);
            own += vec2<u32>(count, (count + TILE_ROWS - 1u) / TILE_ROWS);
        }
    }
    var sum = own;
    var turn = 0u;
    for (var distance = 1u; distance < THREADS; distance *= 2u) {
        before[turn][thread] = sum;
        workgroupBarrier();
        if thread >= distance {
            sum += before[turn][thread - distance];
        }
        turn = 1u - turn;
    }
    before[turn][thread] = sum;
    workgroupBarrier();
    let all = before[turn][THREADS - 1u].y;
    var first = sum.x - own.x;
    var number = sum.y - own.y;
    for (var i = 0u; i < EACH; i++) {
        let expert = thread * EACH + i;
        if expert < EXPERTS {
            let count = atomicLoad(&counts[expert]);
            atomicStore(&counts[expert], first);
            for (var done = 0u; done < count; done += TILE_ROWS) {
                put_tile(number, expert, first + done, min(count - done, TILE_ROWS));
                number += 1u;
            }
            first += count;
        }
    }
    for (var left = all + thread; left < pairs / TILE_ROWS + min(pairs, EXPERTS); left += THREADS) {
        put_tile(left, 0u, 0u, 0u);
    }
    workgroupBarrier();
    for (var pair = thread; pair < pairs; pair += THREADS) {
        let at = atomicAdd(&counts[expert_of(pair)], 1u);
        tiles[LIST + at] = pair;
    }
}
