//! Names for answers and calls that no two share.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// A new id: a prefix and 24 characters.
pub fn new(prefix: &str) -> String {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    const CHARACTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let bits = KEYS.iter().fold(0, |bits: u128, key| bits << 64 | u128::from(key.hash_one(count)));
    let characters = (0..24).map(|place| char::from(CHARACTERS[(bits >> (place * 5)) as usize % 32]));
    prefix.chars().chain(characters).collect()
}
