//! Tests concurrent calls to one function: a slow compilation blocks only the calls that need its program.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use funcify::cancel::Cancellation;
use funcify::dispatch::{
    Backend, Cache, Compiled, Compiles, Declined, Function, Kernel, Outcome, Reference, WholeRequest, evaluate_kernel,
    tensors_of,
};
use funcify::error::BackendError;
use funcify::ops::Scan;
use funcify::{Graph, HostTensor, Symbol, evaluate, funcify, scan};

/// The size for which compilation waits until the gate opens.
const GATED_SIZE: usize = 7;

/// The maximum time that a compilation waits for the gate, so that a broken test fails instead of hanging.
const GATE_TIMEOUT: Duration = Duration::from_secs(120);

/// A backend whose compiled programs run in the reference evaluator. Compilation for one size blocks at a gate.
#[derive(Clone, Default)]
struct GatedBackend(Arc<Gate>);

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    compiled: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// The number of compilations that reached the gate.
    arrived: usize,
    is_open: bool,
    has_given_up: bool,
}

impl Gate {
    fn wait(&self, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let state = self.state.lock().unwrap();
        let (mut state, waited) = self.changed.wait_timeout_while(state, GATE_TIMEOUT, |state| !until(state)).unwrap();
        state.has_given_up |= waited.timed_out();
        state
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.change(|state| state.arrived += 1);
        drop(self.wait(|state| state.is_open));
    }
}

/// A compiled program that runs in the reference evaluator.
struct EvaluatedProgram(Graph);

impl Compiled<Arc<HostTensor>> for EvaluatedProgram {
    fn run(
        &self,
        operands: &[Arc<HostTensor>],
        _: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome<Arc<HostTensor>>, BackendError> {
        let operands: Vec<HostTensor> = operands.iter().map(|operand| (**operand).clone()).collect();
        Ok(Outcome::Done(evaluate(&self.0, &operands)?.into_iter().map(Arc::new).collect()))
    }
}

funcify!(GatedBackend, Scan, native_loop);

impl Backend for GatedBackend {
    tensors_of!(Reference);

    fn name(&self) -> &'static str {
        "slow"
    }

    fn compiles(&self) -> Compiles {
        Compiles::Programs
    }

    fn compile_whole(&self, whole: WholeRequest<'_>) -> Result<Arc<dyn Compiled<Self::Tensor>>, Declined> {
        self.0.compiled.fetch_add(1, Ordering::SeqCst);
        if whole.sizes.get(&Symbol::new("T")) == Some(GATED_SIZE) {
            self.0.pass();
        }
        Ok(Arc::new(EvaluatedProgram(whole.graph.clone())))
    }

    fn fallback(&self) -> Option<Kernel<Self>> {
        Some(evaluate_kernel)
    }
}

/// Compiles a running sum, and returns the function and the gate of its backend.
fn function() -> (Function<GatedBackend>, Arc<Gate>) {
    let graph = Graph::build("running", |g| {
        let (start, xs) = (g.input("start", "f32[]"), g.input("xs", "f32[T]"));
        scan(start, xs, |sum, x| (sum + x, sum + x)).1
    });
    let backend = GatedBackend::default();
    (Function::compile(&graph.unwrap(), &backend).unwrap(), backend.0)
}

/// Calls the function on a vector of `rows` ones, and returns the last running sum.
fn last(function: &Function<GatedBackend>, rows: usize) -> Result<f64, funcify::Error> {
    let ones = HostTensor::from_vec(vec![1f32; rows], [rows]).unwrap();
    let sums = function.call_host(&[HostTensor::scalar(0f32), ones])?;
    Ok(sums[0].to_f64_vec().last().copied().unwrap())
}

#[test]
fn calls_of_other_sizes_go_on_while_a_program_is_compiled() {
    let (function, gate) = function();
    assert_eq!(last(&function, 2).unwrap(), 2.0);
    thread::scope(|scope| {
        let slow = scope.spawn(|| last(&function, GATED_SIZE));
        drop(gate.wait(|state| state.arrived == 1));
        // Meanwhile, calls for compiled sizes and for new sizes succeed, and `report` does not wait.
        for rows in [2, 3, 2, 4, 3] {
            assert_eq!(last(&function, rows).unwrap(), rows as f64);
        }
        assert_eq!(function.report().instructions, function.instructions());
        assert!(!slow.is_finished() && !gate.wait(|_| true).has_given_up);
        gate.change(|state| state.is_open = true);
        assert_eq!(slow.join().unwrap().unwrap(), GATED_SIZE as f64);
    });
    assert!(!gate.wait(|_| true).has_given_up);
    assert_eq!((function.counts().made, gate.compiled.load(Ordering::SeqCst)), (4, 4));
}

/// A call that waits while another call compiles the same program can be cancelled. The cancelled call does not compile
/// the program itself.
#[test]
fn a_call_that_waits_for_a_program_can_be_cancelled() {
    let (function, gate) = function();
    thread::scope(|scope| {
        let slow = scope.spawn(|| last(&function, GATED_SIZE));
        drop(gate.wait(|state| state.arrived == 1));
        let cancelled = Cancellation::new();
        cancelled.cancel();
        let error = cancelled.scope(|| last(&function, GATED_SIZE)).unwrap_err();
        assert_eq!(error.kind(), "Cancelled", "{error}");
        assert_eq!(gate.wait(|_| true).arrived, 1);
        gate.change(|state| state.is_open = true);
        assert_eq!(slow.join().unwrap().unwrap(), GATED_SIZE as f64);
    });
    assert!(!gate.wait(|_| true).has_given_up);
    assert_eq!(function.counts().made, 1);
}

#[test]
fn a_program_that_several_calls_need_is_compiled_once() {
    let (function, gate) = function();
    let called = AtomicUsize::new(0);
    thread::scope(|scope| {
        let call = || {
            called.fetch_add(1, Ordering::SeqCst);
            last(&function, GATED_SIZE).unwrap()
        };
        let calls: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
        drop(gate.wait(|state| state.arrived == 1));
        while called.load(Ordering::SeqCst) < 4 {
            thread::yield_now();
        }
        gate.change(|state| state.is_open = true);
        calls.into_iter().for_each(|call| assert_eq!(call.join().unwrap(), GATED_SIZE as f64));
    });
    assert!(!gate.wait(|_| true).has_given_up);
    assert_eq!((function.counts().made, gate.compiled.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(function.counts().reused, 3);
}

type Numbers = Cache<u32, (u32, u32)>;

fn number(cache: &Numbers, key: u32, value: Result<u32, &'static str>) -> Result<u32, &'static str> {
    let entry = cache.find_or_make(&key, |entry| entry.0 == key, || Ok(()), || Ok((key, value?)));
    entry.map(|entry| entry.1)
}

#[test]
fn the_entry_unused_for_longest_makes_room() {
    let cache = Numbers::new(2);
    let get = |key, value| number(&cache, key, Ok(value));
    assert_eq!([get(1, 10), get(2, 20), get(1, 0)], [Ok(10), Ok(20), Ok(10)]);
    assert_eq!([get(3, 30), get(1, 0), get(2, 21)], [Ok(30), Ok(10), Ok(21)]);
}

#[test]
fn an_entry_that_could_not_be_made_is_made_by_the_next_call() {
    let cache = Numbers::new(2);
    assert_eq!(number(&cache, 1, Err("no")), Err("no"));
    let panics = std::panic::AssertUnwindSafe(|| {
        cache.find_or_make(&1, |_| false, || Ok::<_, ()>(()), || panic!("while it is made"))
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!(number(&cache, 1, Ok(10)), Ok(10));
}

/// While the entry for key 1 is being created, the entry for key 2 can be created as well. A call that needs key 1
/// waits until it is cancelled.
#[test]
fn only_calls_of_the_same_key_wait() {
    let cache = Numbers::new(4);
    let make = || {
        assert_eq!(number(&cache, 2, Ok(20)), Ok(20));
        let waits = cache.find_or_make(&1, |entry| entry.0 == 1, || Err("gives up"), || Err("made twice"));
        assert_eq!(waits, Err("gives up"));
        Ok::<_, &str>((1, 10))
    };
    assert_eq!(cache.find_or_make(&1, |entry| entry.0 == 1, || Ok(()), make), Ok((1, 10)));
}
