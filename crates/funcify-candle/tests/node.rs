//! Tests the nodes that this crate adds to Candle's graph: repeated, concurrent and second-order backward passes, and
//! memory use. Most tests run on both kinds of node: a compiled graph, and a closure loop.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, Var};
use common::{assert_gradients, loss, tensor, var};
use funcify::Graph;
use funcify_candle::{Candle, Differentiable, ScanOptions, scan, scan_with};

const STEPS: usize = 9;

/// Runs the loop `h = sin(w h) + x` as a compiled graph and as a closure loop. Returns a name, the last state and all
/// states for each of the two loops.
fn nodes(w: &Var, xs: &Var) -> Vec<(&'static str, Tensor, Tensor)> {
    let graph = Graph::build("sines", |g| {
        let (start, w, xs) = (g.input("start", "f64[N]"), g.input("w", "f64[N]"), g.input("xs", "f64[T,N]"));
        funcify::scan(start, xs, |h, x| {
            let h = (h * w).sin() + x;
            (h, h)
        })
    });
    let function = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let start = tensor(7, &[3], DType::F64);
    let results = function.call(&[start.clone(), w.as_tensor().clone(), xs.as_tensor().clone()]).unwrap();
    let weight = w.clone();
    let step = move |h: Tensor, x: Tensor| {
        let h = ((h * weight.as_tensor())?.sin()? + x)?;
        Ok((h.clone(), h))
    };
    let (last, ys) = scan(&start, xs.as_tensor(), step).unwrap();
    vec![("graph", results[0].clone(), results[1].clone()), ("closure", last, ys)]
}

fn by_hand(w: &Var, xs: &Var) -> (Tensor, Tensor) {
    let step = |h: Tensor, t| {
        let h = ((h * w.as_tensor())?.sin()? + common::row(xs, t)?)?;
        Ok((h.clone(), h))
    };
    common::by_hand(tensor(7, &[3], DType::F64), STEPS, false, step).unwrap()
}

fn vars() -> (Var, Var) {
    (var(1, &[3], DType::F64), var(2, &[STEPS, 3], DType::F64))
}

#[test]
fn backward_may_be_repeated() {
    let (w, xs) = vars();
    let (last, ys) = by_hand(&w, &xs);
    for (name, found_last, found_ys) in nodes(&w, &xs) {
        let losses =
            |last: &Tensor, ys: &Tensor| [&[last][..], &[ys], &[last, ys], &[last]].map(|of| loss(of).unwrap());
        for (found, expected) in losses(&found_last, &found_ys).iter().zip(losses(&last, &ys)) {
            let expected = expected.backward().unwrap();
            for _ in 0..3 {
                assert_gradients(&found.backward().unwrap(), &expected, &[&w, &xs], name);
            }
        }
    }
}

#[test]
fn backward_may_run_in_several_threads() {
    let (w, xs) = vars();
    let (last, ys) = by_hand(&w, &xs);
    let expected = [loss(&[&last]).unwrap(), loss(&[&ys]).unwrap()].map(|loss| loss.backward().unwrap());
    for (name, last, ys) in nodes(&w, &xs) {
        let losses = [loss(&[&last]).unwrap(), loss(&[&ys]).unwrap()];
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (loss, expected, w, xs) = (&losses[thread % 2], &expected[thread % 2], &w, &xs);
                scope.spawn(move || {
                    for _ in 0..25 {
                        assert_gradients(&loss.backward().unwrap(), expected, &[w, xs], name);
                    }
                });
            }
        });
    }
}

#[test]
fn a_second_backward_through_a_gradient_is_an_error() {
    let (w, xs) = vars();
    for (name, last, ys) in nodes(&w, &xs) {
        let total = loss(&[&last, &ys]).unwrap();
        let gradients = total.backward().unwrap();
        for var in [&w, &xs] {
            let gradient = gradients.get(var).unwrap();
            let error = gradient.sqr().unwrap().sum_all().unwrap().backward().unwrap_err().to_string();
            assert!(error.contains("has no derivative") && error.contains("Graph::grad"), "{name}: {error}");
            // This gradient penalty treats the gradient as a constant.
            let penalty = gradient.detach().sqr().unwrap().sum_all().unwrap();
            let both = (&total + penalty).unwrap().backward().unwrap();
            assert_gradients(&both, &gradients, &[&w, &xs], name);
        }
    }
}

/// Checks nodes whose results are dropped before the backward pass, or are never used.
#[test]
fn results_may_be_dropped() {
    let (w, xs) = vars();
    for (name, last, ys) in nodes(&w, &xs) {
        let expected = loss(&[&by_hand(&w, &xs).0]).unwrap().backward().unwrap();
        drop(ys);
        let total = loss(&[&last]).unwrap();
        drop(last);
        assert_gradients(&total.backward().unwrap(), &expected, &[&w, &xs], name);
    }
    drop(nodes(&w, &xs));
}

/// An identity op that counts its nodes in Candle's graph: `alive` is the current number of nodes, and `most` is the
/// maximum number since the last call to `take`.
#[derive(Clone)]
struct Counted {
    alive: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

struct Recorded(Counted);

impl Drop for Recorded {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counted {
    fn new() -> Self {
        Counted { alive: Arc::default(), most: Arc::default() }
    }

    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let alive = self.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(alive, Ordering::Relaxed);
        x.apply_op1(Recorded(self.clone()))
    }

    /// Returns the maximum number of nodes since the last call, and the current number.
    fn take(&self) -> (usize, usize) {
        let alive = self.alive.load(Ordering::Relaxed);
        (self.most.swap(alive, Ordering::Relaxed), alive)
    }
}

impl CustomOp1 for Recorded {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let values = storage.as_slice::<f64>()?[layout.start_offset()..][..layout.shape().elem_count()].to_vec();
        Ok((CpuStorage::F64(values), layout.shape().clone()))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(gradient.clone()))
    }
}

/// Checks that a closure loop saves the graphs of its steps only if the option `keep_graphs` is set, and that the
/// backward pass holds the graphs of one segment at a time.
#[test]
fn the_graphs_of_steps_are_not_saved() {
    let w = var(1, &[2], DType::F64);
    let start = tensor(2, &[2], DType::F64);
    let new = ScanOptions::new;
    let ways = [(new(), 10), (new().segments(20), 5), (new().segments(1), 100), (new().keep_graphs(), 100)];
    for (options, segment) in ways {
        let counted = Counted::new();
        let (weight, count) = (w.clone(), counted.clone());
        let step = move |h: Tensor, ()| Ok((count.apply(&(h * weight.as_tensor())?.sin()?)?, ()));
        let saved = if format!("{options:?}").contains("keep_graphs: true") { 100 } else { 0 };
        let (last, ()) = scan_with(options.length(100), &start, &(), step).unwrap();
        let (most, alive) = counted.take();
        assert_eq!(alive, saved);
        assert!(most <= saved.max(2), "{most} steps were saved at once");
        let total = last.sum_all().unwrap();
        drop(last);
        for _ in 0..2 {
            total.backward().unwrap();
            let (most, alive) = counted.take();
            assert_eq!(alive, saved);
            assert!((segment..=segment + 1).contains(&most), "{most} steps were saved at once, not {segment}");
        }
        drop(total);
        assert_eq!(counted.take().1, 0);
    }
}

/// Checks that gradients do not keep the graph alive after its results are dropped.
#[test]
fn gradients_keep_nothing_alive() {
    let counted = Counted::new();
    let w = var(1, &[2], DType::F64);
    let (weight, count) = (w.clone(), counted.clone());
    let start = counted.apply(w.as_tensor()).unwrap();
    let step = move |h: Tensor, ()| Ok((count.apply(&(h * weight.as_tensor())?)?, ()));
    let (last, ()) = scan_with(ScanOptions::new().length(10), &start, &(), step).unwrap();
    let gradients = last.sum_all().unwrap().backward().unwrap();
    drop((last, start));
    assert_eq!(counted.take().1, 0);
    assert!(gradients.get(&w).is_some());
}

/// Checks that a node whose backward pass needs the node's own result is freed with that result, because there is no
/// reference cycle.
#[test]
fn a_node_goes_with_its_results() {
    let counted = Counted::new();
    let w = var(1, &[2], DType::F64);
    let graph = Graph::build("exp", |g| g.input("x", "f64[N]").exp()).unwrap();
    let function = Differentiable::compile(&graph, &Candle::cpu()).unwrap();
    let x = counted.apply(w.as_tensor()).unwrap();
    let y = function.call(std::slice::from_ref(&x)).unwrap().remove(0);
    let gradient = y.sum_all().unwrap().backward().unwrap();
    assert_gradients(&gradient, &w.exp().unwrap().sum_all().unwrap().backward().unwrap(), &[&w], "exp");
    drop((x, y));
    assert_eq!(counted.take().1, 0);
}

/// Checks that a function with one input and one output becomes a single Candle op. The same rules apply as for several
/// inputs and outputs: backward passes may be repeated, results may be used twice, and second derivatives are an error.
#[test]
fn one_input_and_one_output_need_no_tokens() {
    let xs = var(2, &[STEPS, 3], DType::F64);
    let graph = Graph::build("sums", |g| {
        let xs = g.input("xs", "f64[T,3]");
        funcify::scan(xs.index(0, 0), xs, |sum, x| (sum.sin() + x, ())).0
    });
    let function = Differentiable::compile(&graph.unwrap(), &Candle::cpu()).unwrap();
    let twice = |last: &Tensor| (last.sqr()? + last)?.sum_all();
    let mut last = common::row(xs.as_tensor(), 0).unwrap();
    for t in 0..STEPS {
        last = (last.sin().unwrap() + common::row(xs.as_tensor(), t).unwrap()).unwrap();
    }
    let expected = twice(&last).unwrap().backward().unwrap();
    let found = function.call(&[xs.as_tensor().clone()]).unwrap().remove(0);
    assert_eq!(found.sorted_nodes().len(), 2, "the op and the variable");
    let loss = twice(&found).unwrap();
    for _ in 0..3 {
        assert_gradients(&loss.backward().unwrap(), &expected, &[&xs], "one op");
    }
    let gradient = loss.backward().unwrap().get(&xs).unwrap().clone();
    let error = gradient.sum_all().unwrap().backward().unwrap_err().to_string();
    assert!(error.contains("has no derivative") && error.contains("Graph::grad"), "{error}");
}
