//! The page of families names those that there are.

use std::collections::BTreeSet;
use std::path::Path;

use gleed_model::archs::known;

#[test]
fn every_family_is_on_its_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/families.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    // Those that give logits and those that give vectors have tables of their own, and some do both.
    let listed: BTreeSet<_> = rows.map(|(name, _)| name).collect();
    assert_eq!(listed, known().collect::<BTreeSet<_>>());
}
