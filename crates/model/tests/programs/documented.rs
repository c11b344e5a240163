//! The page of families names those that there are.

use std::path::Path;

use gleed_model::archs::known;

#[test]
fn every_family_is_on_its_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/families.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    assert_eq!(rows.map(|(name, _)| name).collect::<Vec<_>>(), known().collect::<Vec<_>>());
}
