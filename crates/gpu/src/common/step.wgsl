// The rows of a step, as the host uploaded them: from the header of a list of them on, whose words say where
// everything begins, see step.rs. A row is ROW_WORDS words.

const ROW_TOKEN = 0u;
const ROW_POSITION = 1u;
// Where the row's page numbers begin in `step`, in the page group without a window; then the page of its position.
const ROW_PAGES = 2u;
// Which row of the batch it is; the same as its own number until rows are gathered.
const ROW_SOURCE = 4u;
// Where the rows of its sequence end.
const ROW_LENGTH = 5u;
// The same of other page groups begin here, then its scales of adapters, then its cosines and sines.
const ROW_REST = 6u;

fn record_of(row: u32) -> u32 {
    return first_record() + row * ROW_WORDS;
}
