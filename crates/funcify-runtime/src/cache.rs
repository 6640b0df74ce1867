//! A cache for compiled programs. The cache holds no lock while a program is compiled.
//!
//! A call whose program is cached never waits for a compilation. If several calls need the same new program, the first
//! one compiles it and the others wait. Calls that need different programs compile them in parallel. Waiting calls can
//! be cancelled.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The interval at which a waiting call checks for cancellation.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A cache of the most recently used entries. funcify caches compiled programs in it; plug-ins may cache derivatives or
/// recorded functions. `K` identifies an entry while it is being created.
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
    /// The condition variable that is notified when an entry has been created or its creation has failed.
    changed: Condvar,
    capacity: usize,
}

struct State<K, E> {
    /// The entries, from least to most recently used.
    entries: Vec<E>,
    /// The keys of the entries that are being created.
    pending: Vec<K>,
}

/// The key of an entry that is being created. Dropping the `PendingKey`, even after an error or a panic, lets another
/// call try to create the entry.
struct PendingKey<'c, K: Eq, E> {
    cache: &'c Cache<K, E>,
    key: &'c K,
}

impl<K: Eq + Clone, E: Clone> Cache<K, E> {
    /// Creates an empty cache for up to `capacity` entries. A capacity of 0 is treated as 1.
    pub fn new(capacity: usize) -> Self {
        let state = State { entries: Vec::new(), pending: Vec::new() };
        Cache { state: Mutex::new(state), changed: Condvar::new(), capacity: capacity.max(1) }
    }

    /// Returns the most recently used entry, or `None` if the cache is empty.
    pub(crate) fn last(&self) -> Option<E> {
        self.lock().entries.last().cloned()
    }

    /// Returns an entry for which `serves` returns `true`, and marks it as the most recently used one. Returns `None`
    /// if there is no such entry.
    pub(crate) fn find(&self, serves: impl Fn(&E) -> bool) -> Option<E> {
        self.lock().find(serves)
    }

    /// Adds an entry that the caller has already created.
    pub(crate) fn add(&self, entry: E) {
        self.lock().add(entry, self.capacity);
    }

    /// Returns an entry for which `serves` returns `true`. If there is none, creates an entry with `make`, or waits if
    /// another call is already creating one for `key`. A waiting call runs `check_cancelled` at regular intervals, and
    /// stops waiting if `check_cancelled` returns an error.
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
        // In the meantime, a call with another key may have added an entry that serves this call too.
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

    /// Adds an entry. If the cache is full, evicts the least recently used one.
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
