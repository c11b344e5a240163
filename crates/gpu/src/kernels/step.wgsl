// The rows of a step, as the host uploaded them: a header of words that say where each list begins, then
// the lists, see step.rs. A row is ROW_WORDS words.

const ROW_WORDS = 5u;
const ROW_TOKEN = 0u;
const ROW_POSITION = 1u;
// Where the row's page numbers begin in `step`.
const ROW_PAGES = 2u;
// Where the row's cosines begin in `step`.
const ROW_ANGLES = 3u;
// Which row of the batch it is; the same as its own number until rows are gathered.
const ROW_SOURCE = 4u;

const PAGE = 64u;

// Where a row's record begins. LIST is 0 for all rows of the batch, 1 for the wanted ones.
fn record_of(row: u32) -> u32 {
    return step[LIST] + row * ROW_WORDS;
}
