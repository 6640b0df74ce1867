//! Caches the results of proofs in this process. Backends that share the engine build the same plans for the same
//! programs, so the same proof is often needed again.
//!
//! The key is a 128-bit hash of everything that a proof depends on: graph, sizes, plan, types, constants, instruction
//! set, and budget. If another thread is already proving the same subject, the caller waits for the result of that
//! thread.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use funcify_core::cancel::{ActiveHandles, Progress};
use funcify_core::error::{Place, Site};

use super::effort;
use super::subject::Subject;
use super::verdict::Verdict;

type Key = [u64; 2];

static KNOWN: LazyLock<Mutex<HashMap<Key, Arc<OnceLock<Verdict>>>>> = LazyLock::new(Mutex::default);

/// The maximum number of cached verdicts. When the cache is full, it is cleared.
const MAX_ENTRIES: usize = 1 << 17;

/// Returns the cached verdict for a subject. If there is none, tries to prove the subject and caches the verdict.
pub(super) fn prove_cached(subject: &Subject<'_>) -> Verdict {
    let key = key(subject);
    let verdict = {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.entry(key).or_default().clone()
    };
    // The lock is not held here, because a proof takes a long time.
    let verdict = verdict.get_or_init(|| subject.prove()).clone();
    let is_cancelled =
        || ActiveHandles::current().check(&Place::new("check", Site::Unknown), Progress::Uncounted).is_err();
    if matches!(verdict, Verdict::Unknown(_)) && is_cancelled() {
        // Drop the result of a cancelled proof, because a later call may finish the proof.
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
    verdict
}

fn key(subject: &Subject<'_>) -> Key {
    let Subject { graph, sizes, plan, dtype, constants, refuses, machine } = *subject;
    let mut hash = Hashed::default();
    let written = write!(
        hash,
        "{graph}{sizes:?}{plan:?}{dtype}{constants:?}{refuses}{}{}",
        machine.name(),
        effort::graph_budget()
    );
    debug_assert!(written.is_ok(), "hashing does not fail");
    hash.0.map(|hasher| hasher.finish())
}

/// A writer that feeds text to two hashers, one for each half of the key.
struct Hashed([DefaultHasher; 2]);

impl Default for Hashed {
    fn default() -> Self {
        let mut second = DefaultHasher::new();
        2u8.hash(&mut second);
        Hashed([DefaultHasher::new(), second])
    }
}

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.iter_mut().for_each(|hasher| hasher.write(text.as_bytes()));
        Ok(())
    }
}
