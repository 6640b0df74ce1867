//! Runs a program on the views of one part: innermost loops, and the loops and choices around them.

use std::cell::RefCell;

use funcify_body::Item;
use pulp::Simd;

use crate::body::{Body, Operands, PlannedLoop, Setting, Translatable};
use crate::kernels::math::MathTable;
use crate::plan::{DEPTH, Node, Operand, UNBOUNDED_ITERATIONS};
use crate::run::typed::Typed;
use crate::threads::Estimate;
use crate::views::{Start, View};

/// The estimated overhead per iteration of a loop that contains loops, in nanoseconds.
const NS_PER_ITERATION: u64 = 10;

/// A function that returns `true` if a call must stop early.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The estimated time between two calls to [`Stop`], in nanoseconds.
const NS_BETWEEN_STOP_CALLS: u64 = 1_000_000;

/// A program in executable form.
pub(crate) type Prepared<T> = Vec<Run<T>>;

/// A node in executable form. The number in `Body` and `Nest` is the trip count.
#[derive(Clone, Debug)]
pub(crate) enum Run<T> {
    /// An innermost loop.
    Body(usize, Body<T>),
    /// A loop that runs its nodes one after the other.
    Nest(usize, Vec<Run<T>>),
    /// A loop that ends when a condition is false.
    While(Box<While<T>>),
    /// A choice between two programs.
    Choice(Start, Box<[Prepared<T>; 2]>),
    /// A fused body, an op that is computed as a whole, or an instruction on integers.
    Typed(Box<Typed>),
}

/// A loop that ends when a condition is false, in executable form.
#[derive(Clone, Debug)]
pub(crate) struct While<T> {
    test: Prepared<T>,
    holds: Start,
    body: Prepared<T>,
    bound: Option<usize>,
}

/// Converts nodes to executable form. `times` holds the trip counts of the enclosing loops.
pub(crate) fn prepare<T: Translatable>(setting: &Setting<'_>, nodes: &[Node], times: &mut Vec<usize>) -> Prepared<T> {
    let mut runs: Prepared<T> = Vec::new();
    for node in nodes {
        match node {
            Node::Do(instruction) if setting.has_integers(instruction) => {
                runs.push(Run::Typed(Box::new(Typed::instruction::<T>(setting, instruction))));
            }
            Node::Fused(fused) => runs.push(Run::Typed(Box::new(Typed::fused(setting, fused)))),
            Node::Evaluate(evaluation) => runs.push(Run::Typed(Box::new(Typed::evaluation(setting, evaluation)))),
            Node::Do(instruction) => {
                let is_added = match runs.last_mut() {
                    Some(Run::Body(1, body)) => setting.append(body, instruction),
                    _ => false,
                };
                if !is_added {
                    runs.push(Run::Body(1, setting.single_instruction_body(instruction)));
                }
            }
            Node::Loop { times: 0, .. } | Node::While { bound: Some(0), .. } => {}
            Node::Loop { times: own, body } => {
                times.push(*own);
                let as_body = PlannedLoop::of(node, times).filter(|planned| !setting.has_integers_in(planned));
                let as_body = as_body.and_then(|planned| setting.body(&planned));
                runs.push(match as_body {
                    Some(body) => Run::Body(*own, body),
                    None => Run::Nest(*own, prepare(setting, body, times)),
                });
                times.pop();
            }
            Node::Choice { holds, branches } => {
                let branches = branches.each_ref().map(|nodes| prepare(setting, nodes, times));
                runs.push(Run::Choice(condition(setting, holds), Box::new(branches)));
            }
            Node::While { test, holds, body, bound } => {
                times.push(bound.unwrap_or(UNBOUNDED_ITERATIONS));
                let as_body = PlannedLoop::of(node, times).filter(|planned| !setting.has_integers_in(planned));
                let as_body = as_body.and_then(|planned| setting.body(&planned));
                runs.push(match as_body {
                    Some(body) => Run::Body(bound.unwrap_or(usize::MAX), body),
                    None => {
                        let [test, body] = [test, body].map(|nodes| prepare(setting, nodes, times));
                        let holds = condition(setting, holds);
                        Run::While(Box::new(While { test, holds, body, bound: *bound }))
                    }
                });
                times.pop();
            }
        }
    }
    runs
}

fn condition(setting: &Setting<'_>, holds: &Operand) -> Start {
    Start::of(&setting.layouts, holds, 1, 0)
}

/// The assumed number of iterations of a loop that ends when a condition is false, unless the bound of the loop is
/// smaller.
const ASSUMED_ITERATIONS: usize = 16;

/// Returns the estimated run time of a program.
pub(crate) fn estimate<T>(program: &Prepared<T>) -> Estimate {
    let zero = Estimate::default();
    program.iter().map(estimate_of_node).fold(zero, |sum, node| sum.plus(node, 1))
}

fn estimate_of_node<T>(run: &Run<T>) -> Estimate {
    let zero = Estimate::default();
    match run {
        Run::Body(times, body) => zero.plus(body.estimate(), *times),
        Run::Nest(times, body) => zero.plus(estimate(body), *times),
        Run::While(node) => {
            let times = node.bound.unwrap_or(ASSUMED_ITERATIONS).min(ASSUMED_ITERATIONS);
            zero.plus(estimate(&node.test), times).plus(estimate(&node.body), times)
        }
        Run::Choice(_, branches) => zero.plus(estimate(&branches[0]), 1).plus(estimate(&branches[1]), 1),
        Run::Typed(typed) => typed.estimate(),
    }
}

thread_local! {
    /// Lists that the programs of a thread use in turn, so that only the first ones allocate memory.
    static OPERANDS: RefCell<Operands> = RefCell::default();
}

/// Runs a program on the views of one part, until it ends or `stop` returns `true`.
pub(crate) fn run<'a, T: MathTable + Item, S: Simd>(
    simd: S,
    program: &Prepared<T>,
    views: &mut [View<'a, T>],
    integers: &mut [View<'a, u8>],
    stop: Stop<'_>,
) {
    let stop_timer = StopTimer { stop, left: NS_BETWEEN_STOP_CALLS, is_stopped: false };
    OPERANDS.with(|kept| {
        // A thread that waits for pieces on other threads may run another program.
        let (mut kept, mut own) = (kept.try_borrow_mut(), None);
        let operands = kept.as_deref_mut().unwrap_or_else(|_| own.insert(Operands::default()));
        Runner { simd, views, integers, operands, stop_timer }.run_all(program, [0; DEPTH], 0);
    });
}

/// A timer that determines when to call [`Stop`], based on estimated time rather than on the number of iterations.
struct StopTimer<'p> {
    stop: Stop<'p>,
    /// The estimated time until the next call to [`Stop`], in nanoseconds.
    left: u64,
    is_stopped: bool,
}

impl StopTimer<'_> {
    /// Returns how many of the `left` remaining iterations may run before the next call to [`Stop`]: at least 1, or 0
    /// if the run was stopped. `nanoseconds` is the estimated time per iteration.
    #[inline]
    fn iterations_allowed(&self, left: usize, nanoseconds: u64) -> usize {
        if self.is_stopped {
            return 0;
        }
        match (left as u64).checked_mul(nanoseconds) {
            Some(all) if all <= self.left => left,
            _ => left.min(usize::try_from(self.left / nanoseconds.max(1)).unwrap_or(usize::MAX).max(1)),
        }
    }

    /// Records that `iterations` iterations of `nanoseconds` each have run, and calls [`Stop`] when the time is up.
    #[inline]
    fn count(&mut self, iterations: usize, nanoseconds: u64) {
        self.left = self.left.saturating_sub((iterations as u64).saturating_mul(nanoseconds));
        if self.left == 0 {
            self.left = NS_BETWEEN_STOP_CALLS;
            self.is_stopped = (self.stop)();
        }
    }
}

struct Runner<'p, 'a, T, S> {
    simd: S,
    views: &'p mut [View<'a, T>],
    /// The views of regions of integers, or an empty list if the plan has none.
    integers: &'p mut [View<'a, u8>],
    operands: &'p mut Operands,
    stop_timer: StopTimer<'p>,
}

impl<T: MathTable + Item, S: Simd> Runner<'_, '_, T, S> {
    /// Runs nodes that are nested in `level` loops. `counters` holds the current iteration of each of these loops.
    fn run_all(&mut self, runs: &[Run<T>], counters: [isize; DEPTH], level: usize) {
        for run in runs {
            if self.stop_timer.is_stopped {
                return;
            }
            match run {
                Run::Body(times, body) => self.run_body(body, *times, counters, level),
                Run::Nest(times, body) => {
                    for counter in 0..*times {
                        self.stop_timer.count(1, NS_PER_ITERATION);
                        if self.stop_timer.is_stopped {
                            return;
                        }
                        let mut counters = counters;
                        counters[level] = counter as isize;
                        self.run_all(body, counters, level + 1);
                    }
                }
                Run::While(conditional) => self.run_while(conditional, counters, level),
                Run::Choice(holds, branches) => {
                    let chosen = usize::from(!self.holds(holds, counters, level));
                    self.run_all(&branches[chosen], counters, level);
                }
                Run::Typed(typed) => {
                    self.stop_timer.count(1, typed.nanoseconds);
                    typed.run(self.simd, self.views, self.integers, &mut self.operands.ranges, (&counters, level));
                }
            }
        }
    }

    /// Runs a loop as long as its condition holds, up to its bound.
    fn run_while(&mut self, conditional: &While<T>, mut counters: [isize; DEPTH], level: usize) {
        for counter in 0..conditional.bound.unwrap_or(usize::MAX) {
            counters[level] = counter as isize;
            self.stop_timer.count(1, NS_PER_ITERATION);
            self.run_all(&conditional.test, counters, level + 1);
            if self.stop_timer.is_stopped {
                return;
            }
            if !self.holds(&conditional.holds, counters, level + 1) {
                return;
            }
            self.run_all(&conditional.body, counters, level + 1);
        }
    }

    /// Returns `true` if a condition holds in the current iteration.
    fn holds(&self, condition: &Start, counters: [isize; DEPTH], level: usize) -> bool {
        let range = condition.inside(&counters, level).range;
        match self.integers.get(condition.region) {
            Some(View::None) | None => self.views[condition.region].read(range)[0] != T::ZERO,
            Some(integers) => integers.read(range).iter().any(|byte| *byte != 0),
        }
    }

    /// Runs an innermost loop, and calls [`Stop`] when the timer requires it.
    fn run_body(&mut self, body: &Body<T>, times: usize, counters: [isize; DEPTH], level: usize) {
        let nanoseconds = body.nanoseconds();
        let (stop_timer, mut left, mut ran) = (&mut self.stop_timer, times, 0);
        let more = || {
            if ran > 0 {
                stop_timer.count(ran, nanoseconds);
            }
            ran = stop_timer.iterations_allowed(left, nanoseconds);
            left -= ran;
            ran
        };
        body.run(self.simd, self.views, self.operands, (&counters, level), more);
    }
}
