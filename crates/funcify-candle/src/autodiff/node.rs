//! Attaches a computation to Candle's graph as a single node, with any number of inputs and outputs of various float
//! types.
//!
//! Candle's custom ops have at most three inputs and one output. To work around these limits, the node is built from
//! several ops that are connected by tokens:
//!
//! ```text
//! input 0 ──▶ Input ─┐                      ┌─▶ Output ──▶ output 0
//! input 1 ──▶ Input ─┼─▶ cat ──▶ Hub ───────┼─▶ Output ──▶ output 1
//! input 2 ──▶ Input ─┘                      └─▶ Output ──▶ output 2
//! ```
//!
//! Edges without a label are tokens: small f32 vectors that only record a dependency. An `Output` returns elements
//! that have already been computed. A node with one input and one output is a single op, and needs no tokens.
//!
//! 1. In a backward pass, Candle visits each `Output` on which the loss depends, then the hub, then each `Input`. An
//!    `Output` stores its cotangent under a new ticket, and returns the ticket number as the gradient of its token. The
//!    hub looks up the cotangents stored under these tickets. If an output has no ticket, the loss does not depend on
//!    it. The hub passes the gradients to the inputs in the same way.
//! 2. Tickets keep the stored values of different backward passes separate. So a backward pass may be repeated or fail
//!    midway, and several may run concurrently.
//! 3. The depth of the graph does not depend on the number of inputs. This matters because Candle's backward pass is
//!    recursive.
//! 4. Each gradient is returned through an op whose backward pass returns an error, because a second derivative
//!    computed by Candle would be wrong.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{Error, Result, Tensor};
use funcify_core::error::{Place, Site};

use super::record::{ForwardResult, record};
use super::storage::{Elements, Handover, MAX_TICKET, parse_ticket};
use crate::errors::{self, bail};

/// A function that computes the gradients of the inputs from the cotangents of the outputs. A cotangent is `None` if
/// the output is unused, and a gradient is `None` if it is zero.
pub(crate) type Pull = dyn Fn(&[Option<Tensor>]) -> Result<Vec<Option<Elements>>> + Send + Sync;

/// Attaches a computation to Candle's graph as one node, and returns the outputs as tracked tensors. There must be at
/// least one input. All inputs must be tracked, and all inputs and outputs must have float types.
pub(crate) fn attach(at: &Place, inputs: &[Tensor], outputs: &[Elements], pull: Box<Pull>) -> Result<Vec<Tensor>> {
    let node = Arc::new(Node {
        at: at.clone(),
        outputs: outputs.len(),
        inputs: inputs.len(),
        pull,
        scope: Scope::current(),
        next: AtomicU32::new(1),
        deposits: Mutex::default(),
    });
    if let ([input], [output]) = (inputs, outputs) {
        let gradient = move |input: &Tensor, cotangent: &Tensor| {
            let gradient = node.compute_gradients(&[Some(cotangent.detach())])?.pop();
            node.to_candle_gradient(input, gradient.expect("`compute_gradients` checked that there is one per input"))
        };
        return Ok(vec![record(input, "funcify", elements(output)?, gradient)?]);
    }
    let token = |(index, input): (usize, &Tensor)| {
        let node = node.clone();
        record(input, "funcify-input", ForwardResult::Tokens(1), move |input, tickets| {
            node.take_gradient(index, input, tickets)
        })
    };
    let tokens = inputs.iter().enumerate().map(token).collect::<Result<Vec<_>>>()?;
    let (tokens, of_hub) = (Tensor::cat(&tokens, 0)?, node.clone());
    let hub = record(&tokens, "funcify-hub", ForwardResult::Tokens(outputs.len()), move |tokens, tickets| {
        let number = of_hub.deposit_gradients(&tickets.to_vec1::<f32>()?)?;
        Tensor::full(number as f32, tokens.shape(), tokens.device()).map(Some)
    })?;
    let give = |(index, output): (usize, &Elements)| {
        let node = node.clone();
        let gradient = move |tokens: &Tensor, cotangent: &Tensor| node.deposit_cotangent(index, tokens, cotangent);
        record(&hub, "funcify-output", elements(output)?, gradient)
    };
    outputs.iter().enumerate().map(give).collect()
}

fn elements(of: &Elements) -> Result<ForwardResult> {
    Handover::new(of).map(ForwardResult::Elements)
}

struct Node {
    at: Place,
    inputs: usize,
    outputs: usize,
    pull: Box<Pull>,
    scope: Scope,
    next: AtomicU32,
    deposits: Mutex<Deposits>,
}

/// The cotangents and gradients that a backward pass has stored for its later ops, keyed by ticket.
#[derive(Default)]
struct Deposits {
    cotangents: HashMap<u32, Tensor>,
    gradients: HashMap<u32, Vec<Option<Option<Elements>>>>,
}

impl Node {
    fn next_ticket(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed) % (MAX_TICKET - 1) + 1
    }

    fn deposits(&self) -> MutexGuard<'_, Deposits> {
        self.deposits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the cotangents stored under these tickets. Ticket 0 means that the output has no cotangent,
    /// and yields `None`.
    fn take_cotangents(&self, tickets: &[f32]) -> Result<Vec<Option<Tensor>>> {
        let mut deposits = self.deposits();
        let cotangent = |value: &f32| match parse_ticket(*value)? {
            0 => Ok(None),
            number => match deposits.cotangents.remove(&number) {
                Some(cotangent) => Ok(Some(cotangent)),
                None => bail!("{}: a cotangent was taken twice", self.at.op),
            },
        };
        tickets.iter().map(cotangent).collect()
    }

    /// Runs the pullback of the node. Returns an error if the node was created in a different scope.
    fn compute_gradients(&self, cotangents: &[Option<Tensor>]) -> Result<Vec<Option<Elements>>> {
        if self.scope != Scope::current() {
            return Err(self.captured_error());
        }
        let gradients = (self.pull)(cotangents).map_err(errors::without_backtrace)?;
        if gradients.len() != self.inputs {
            bail!("{}: {} gradients for {} inputs", self.at.op, gradients.len(), self.inputs);
        }
        Ok(gradients)
    }

    /// Converts a gradient to the form that Candle's backward pass expects: zeros in place of `None`, except for
    /// variables.
    fn to_candle_gradient(&self, input: &Tensor, gradient: Option<Elements>) -> Result<Option<Tensor>> {
        match gradient {
            Some(gradient) => {
                let at = self.at.clone();
                record(input, "funcify-gradient", elements(&gradient)?, move |_, _| Err(second_order_error(&at)))
                    .map(Some)
            }
            // A variable without a gradient gets no entry, so that optimisers skip it.
            None if input.is_variable() => Ok(None),
            // Candle's backward pass requires a gradient for every other tensor that it visits.
            None => input.detach().zeros_like().map(Some),
        }
    }

    /// Runs the pullback on the cotangents stored under these tickets, and stores the gradients. Returns the ticket of
    /// the gradients.
    fn deposit_gradients(&self, tickets: &[f32]) -> Result<u32> {
        let gradients = self.compute_gradients(&self.take_cotangents(tickets)?)?;
        let number = self.next_ticket();
        self.deposits().gradients.insert(number, gradients.into_iter().map(Some).collect());
        Ok(number)
    }

    /// Runs the backward pass of an `Output`: stores its cotangent under a new ticket.
    fn deposit_cotangent(&self, index: usize, tokens: &Tensor, cotangent: &Tensor) -> Result<Option<Tensor>> {
        let number = self.next_ticket();
        self.deposits().cotangents.insert(number, cotangent.detach());
        let mut tickets = vec![0f32; self.outputs];
        tickets[index] = number as f32;
        Tensor::from_vec(tickets, tokens.shape(), tokens.device()).map(Some)
    }

    /// Runs the backward pass of an `Input`: looks up its gradient by ticket.
    fn take_gradient(&self, index: usize, input: &Tensor, tickets: &Tensor) -> Result<Option<Tensor>> {
        let number = parse_ticket(tickets.to_vec1::<f32>()?.iter().sum())?;
        let gradient = {
            let mut deposits = self.deposits();
            let Some(waiting) = deposits.gradients.get_mut(&number) else {
                bail!("{}: the gradients were taken twice", self.at.op);
            };
            let Some(gradient) = waiting[index].take() else {
                bail!("{}: a gradient was taken twice", self.at.op);
            };
            if waiting.iter().all(Option::is_none) {
                deposits.gradients.remove(&number);
            }
            gradient
        };
        self.to_candle_gradient(input, gradient)
    }

    fn captured_error(&self) -> Error {
        let fix = "pass it to `scan_captured`, or to the loop as part of its carry or sequences";
        let found = format!("the result of `{}`, which has a gradient of its own", self.at.op);
        let expected = "`Var`s, tensors without a graph, or results of Candle's own ops";
        errors::into_candle(self.at.mismatch("a tensor that a closure captures", expected, found, fix))
    }
}

/// Returns the error for a backward pass through a gradient (a second derivative).
fn second_order_error(at: &Place) -> Error {
    errors::into_candle(funcify_core::Error::NoDerivative {
        at: at.boxed(),
        component: "a gradient that Candle's backward returned".into(),
        reason: "Candle's backward detaches what it computes, so its second derivatives are wrong".into(),
        fix: "`detach()` the gradient if it is meant as numbers; for a second derivative differentiate the graph \
              (`Graph::grad` as often as needed) and compile that"
            .into(),
    })
}

/// The identifier of a loop whose step is a closure. A backward pass inside the closure must not reach nodes created
/// outside of that closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scope(u64);

thread_local! {
    static SCOPE: Cell<Scope> = const { Cell::new(Scope(0)) };
}

impl Scope {
    fn current() -> Self {
        SCOPE.get()
    }

    /// Creates a scope with a unique id.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Scope(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs `f` with this scope as the current scope, and then restores the previous scope.
    pub(crate) fn run<R>(self, f: impl FnOnce() -> R) -> R {
        struct Restore(Scope);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPE.set(self.0);
            }
        }
        let _restore = Restore(SCOPE.replace(self));
        f()
    }
}

/// Returns the place of a user's call: the op's name, and the user's source line.
#[track_caller]
pub(crate) fn place(op: &str) -> Place {
    Place::new(op, Site::caller())
}
