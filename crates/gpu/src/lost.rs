//! Waiting for a device that may be lost.
//!
//! When a device is lost while it is waited for, wgpu calls back and then panics: its `poll` has an error for a wait that
//! takes too long and none for this. The panic is raised when all of wgpu's own work is done and its locks are free, so
//! that it can be turned into what it is, an error.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether this thread waits, so that a panic is no message for the terminal.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// What a wait returns, or the message of its panic.
pub(crate) fn waited<T>(wait: impl FnOnce() -> T) -> Result<T, String> {
    keep_quiet();
    WAITS.set(true);
    let result = catch_unwind(AssertUnwindSafe(wait));
    WAITS.set(false);
    result.map_err(|panic| message(&*panic))
}

/// Panics of waits are not printed; all others are, as before.
fn keep_quiet() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed while a panic is under way.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !WAITS.get() {
                before(panic);
            }
        }));
    });
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason was given".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_wait_is_its_message() {
        assert_eq!(waited(|| 7), Ok(7));
        let lost = "Error in Device::poll: Validation Error";
        assert_eq!(waited(|| -> u32 { panic!("{lost}") }), Err(lost.to_string()));
        assert_eq!(waited(|| -> u32 { panic!("short") }), Err("short".to_string()));
        assert_eq!(waited(|| 8), Ok(8));
        assert!(!WAITS.get());
    }
}
