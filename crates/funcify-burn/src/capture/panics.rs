//! Catches panics of closures while they are recorded. Keeps the text and the line of the panic, and prints no message.
//!
//! Burn's functions that read elements panic at the line of their caller, and only a panic hook learns that line. So
//! the first recording installs a hook. The hook passes every other panic on to the hook that was installed before.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A caught panic.
pub(super) struct Panic {
    pub(super) text: String,
    /// The source location, if the hook received it.
    pub(super) line: Option<String>,
}

thread_local! {
    /// `Some` while a closure is recorded on this thread. The inner value is the location of its panic, if any.
    static PANIC_LINE: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Runs `f` and returns its result, or the panic if it panicked.
pub(super) fn catch_panic<R>(f: impl FnOnce() -> R) -> Result<R, Panic> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            let line = panic.location().map(ToString::to_string);
            let store = |slot: &RefCell<Option<Option<String>>>| match slot.try_borrow_mut() {
                Ok(mut slot) if slot.is_some() => {
                    *slot = Some(line);
                    true
                }
                _ => false,
            };
            if !PANIC_LINE.try_with(store).unwrap_or(false) {
                others(panic);
            }
        }));
    });
    let around = PANIC_LINE.replace(Some(None));
    let result = catch_unwind(AssertUnwindSafe(f));
    let line = PANIC_LINE.replace(around).flatten();
    result.map_err(|panic| Panic { text: panic_text(panic.as_ref()), line })
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
