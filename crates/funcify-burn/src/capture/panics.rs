//! Catches panics in closures that are being recorded. Keeps the message and the source location of a panic instead of
//! printing them.
//!
//! The location tells users where their closure reads elements, but only a panic hook receives it. So the first
//! recording installs a hook. It forwards panics outside of recorded closures to the previously installed hook.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// A caught panic.
pub(super) struct Panic {
    pub(super) text: String,
    /// The source location of the panic, if known.
    pub(super) line: Option<String>,
}

thread_local! {
    /// `Some` while this thread records a closure. The inner option holds the location of the closure's panic, if any.
    static PANIC_LINE: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

/// Runs `f` and returns its result, or the panic if `f` panics.
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
