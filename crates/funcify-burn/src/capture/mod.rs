//! Closures over Burn tensors, modules included, as funcify graphs.

mod import;
mod inner;
mod panics;
mod probe;
mod record;
mod recorded;
mod scan;
mod sequence;
mod stops;
mod tape;
mod trace;
mod weights;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensorKind, TensorMetadata};
use burn::tensor::{CapturedGraph, Device, Shape, TensorId};
use burn_ir::{CustomOpIr, GraphIr, IrVisitorMut, OperationIr, ScalarIr, TensorIr};
use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::{DType, Graph, HostTensor, ScanOptions, TensorType, Value, scan_with};

use crate::kinds::Tensor;
use crate::plugin::{
    AnyTensor, Differentiable, DifferentiableOptions, TensorKind, Tensors, for_caller, leaves_of, misfit, structure,
};

pub use scan::{Scan, scan};
pub use sequence::{Sequences, Stacked};
pub use trace::{Trace, trace};
pub use weights::Weights;

/// The error of what is done while a graph is built, which its closure cannot return.
#[derive(Default)]
struct Refusal(RefCell<Option<Error>>);

impl Refusal {
    /// Returns the results, or `otherwise` where there is an error, which is kept.
    fn results<T>(&self, results: Result<T>, otherwise: impl FnOnce() -> T) -> T {
        results.unwrap_or_else(|error| {
            *self.0.borrow_mut() = Some(error);
            otherwise()
        })
    }

    /// Returns the error that was kept, else what was made.
    fn or<T>(self, made: Result<T>) -> Result<T> {
        self.0.into_inner().map_or(made, Err)
    }
}

/// Parts the results of a step: the next carry, and what is stacked.
fn parted(mut results: Vec<Value>, carries: usize) -> (Vec<Value>, Vec<Value>) {
    let ys = results.split_off(carries);
    (results, ys)
}

/// Names that differ.
struct Named(Vec<String>);

impl Named {
    /// The name, or with the first number that makes it another one. Gives it.
    fn add(&mut self, name: &str) -> String {
        let numbered = (1..).map(|number: usize| format!("{name}_{number}"));
        let free = std::iter::once(name.to_string()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.expect("there are names enough");
        self.0.push(free.clone());
        free
    }
}

/// These names, with numbers where they are alike.
fn names(names: Vec<String>) -> Named {
    let mut named = Named(Vec::with_capacity(names.len()));
    names.iter().for_each(|name| _ = named.add(name));
    named
}
