//! Parses mutated texts of programs. Parsing must not panic, hang or exceed the memory budget, and a text that parses
//! must round-trip. `cargo xtask fuzz-text` runs this target.

#![no_main]

use std::sync::Once;

use funcify_conformance::mutants::{probe, set_up};
use libfuzzer_sys::fuzz_target;

/// The stack size of the thread that parses texts. This is the default stack size of Rust threads.
const STACK: usize = 2 << 20;

static SET_UP: Once = Once::new();

fuzz_target!(|text: String| {
    SET_UP.call_once(set_up);
    let probing = std::thread::Builder::new().stack_size(STACK).spawn(move || probe(&text, text.len() as u64));
    let probed = probing.expect("a thread can be started").join().expect("a probe catches panics");
    if let Err(reason) = probed {
        // Print the reason here, because the panic hook that `set_up` installs prints nothing.
        eprintln!("{reason}");
        std::process::abort();
    }
});
