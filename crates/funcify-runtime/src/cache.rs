//! Caches compiled programs without holding a lock while one is compiled.
//!
//! A call whose program is cached never waits for a compilation. Calls that need the same new program wait for the
//! first of them, which compiles it once; calls that need different programs compile them in parallel. A waiting call
//! can still be cancelled.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time that a waiting call sleeps before it checks again for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A cache of the most recently used entries, for plug-ins too: compiled programs, derivatives, recorded functions.
/// `K` identifies an entry that is being made.
///
/// ```
/// use funcify::dispatch::Cache;
///
/// let squares = Cache::new(16);
/// let square = |n: u32| {
///     let made = squares.find_or_make(&n, |entry: &(u32, u32)| entry.0 == n, || Ok::<_, ()>(()), || Ok((n, n * n)));
///     made.map(|entry| entry.1)
/// };
/// assert_eq!([square(3), square(3)], [Ok(9), Ok(9)]);
/// ```
pub struct Cache<K, E> {
    state: Mutex<State<K, E>>,
    /// Notified when an entry is created, and when creating one fails.
    changed: Condvar,
    capacity: usize,
}

struct State<K, E> {
    /// The entries, the most recently used one last.
    entries: Vec<E>,
    /// The keys of the entries that some call is making.
    pending: Vec<K>,
}

/// A key that is being made. Dropping it, also after an error or a panic, lets another call make the entry.
struct PendingKey<'c, K: Eq, E> {
    cache: &'c Cache<K, E>,
    key: &'c K,
}

impl<K: Eq + Clone, E: Clone> Cache<K, E> {
    /// Creates an empty cache of at most `capacity` entries, or of one if `capacity` is 0.
    pub fn new(capacity: usize) -> Self {
        let state = State { entries: Vec::new(), pending: Vec::new() };
        Cache { state: Mutex::new(state), changed: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Returns the most recently used entry.
    pub(crate) fn last(&self) -> Option<E> {
        self.lock().entries.last().cloned()
    }

    /// Returns the entry for which `serves` holds, and marks it as used.
    pub(crate) fn find(&self, serves: impl Fn(&E) -> bool) -> Option<E> {
        self.lock().find(serves)
    }

    /// Adds an entry that was created elsewhere.
    pub(crate) fn add(&self, entry: E) {
        self.lock().add(entry, self.capacity);
    }

    /// Returns the entry for which `serves` holds. Otherwise creates it, or waits while another call creates the one
    /// for this `key`. While waiting, calls `check_cancelled` repeatedly; its error ends the wait.
    pub fn find_or_make<F>(
        &self,
        key: &K,
        serves: impl Fn(&E) -> bool,
        check_cancelled: impl Fn() -> Result<(), F>,
        make: impl FnOnce() -> Result<E, F>,
    ) -> Result<E, F> {
        let mut state = self.lock();
        loop {
            if let Some(entry) = state.find(&serves) {
                return Ok(entry);
            }
            if !state.pending.contains(key) {
                break;
            }
            let waited = self.changed.wait_timeout(state, CANCEL_POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
            drop(waited);
            check_cancelled()?;
            state = self.lock();
        }
        state.pending.push(key.clone());
        drop(state);
        let pending = PendingKey { cache: self, key };
        let entry = make()?;
        // An entry added for a different key may serve this call, too.
        let mut state = self.lock();
        if !state.entries.iter().any(serves) {
            state.add(entry.clone(), self.capacity);
        }
        drop(state);
        drop(pending);
        Ok(entry)
    }
}

impl<K, E> Cache<K, E> {
    fn lock(&self) -> MutexGuard<'_, State<K, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, E: Clone> State<K, E> {
    fn find(&mut self, serves: impl Fn(&E) -> bool) -> Option<E> {
        let entry = self.entries.remove(self.entries.iter().position(serves)?);
        self.entries.push(entry.clone());
        Some(entry)
    }

    /// Adds an entry. A full cache evicts the least recently used one.
    fn add(&mut self, entry: E, capacity: usize) {
        if self.entries.len() >= capacity {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }
}

impl<K: Eq, E> Drop for PendingKey<'_, K, E> {
    fn drop(&mut self) {
        self.cache.lock().pending.retain(|key| key != self.key);
        self.cache.changed.notify_all();
    }
}
