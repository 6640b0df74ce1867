//! Turns closures on Burn tensors and modules into funcify graphs.

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

/// The error of a closure that builds a graph. It is stored here because such a closure cannot return an error.
#[derive(Default)]
struct DeferredError(RefCell<Option<Error>>);

impl DeferredError {
    /// Returns the value in `results`. If `results` is an error, stores the error and returns `otherwise()` instead.
    fn unwrap_or_keep<T>(&self, results: Result<T>, otherwise: impl FnOnce() -> T) -> T {
        results.unwrap_or_else(|error| {
            *self.0.borrow_mut() = Some(error);
            otherwise()
        })
    }

    /// Returns the stored error, or `result` if there is none.
    fn into_result<T>(self, result: Result<T>) -> Result<T> {
        self.0.into_inner().map_or(result, Err)
    }
}

/// Splits the results of a step into the next carry and the ys.
fn split_carry(mut results: Vec<Value>, carries: usize) -> (Vec<Value>, Vec<Value>) {
    let ys = results.split_off(carries);
    (results, ys)
}

/// A list of distinct names.
struct DistinctNames(Vec<String>);

impl DistinctNames {
    /// Adds `name` to the list, with a numeric suffix if the list already contains it. Returns the added name.
    fn add(&mut self, name: &str) -> String {
        let numbered = (1..).map(|number: usize| format!("{name}_{number}"));
        let free = std::iter::once(name.to_string()).chain(numbered).find(|name| !self.0.contains(name));
        let free = free.expect("some number is not taken yet");
        self.0.push(free.clone());
        free
    }
}

/// Returns these names as a list of distinct names, by adding numeric suffixes to duplicates.
fn distinct_names(names: Vec<String>) -> DistinctNames {
    let mut distinct = DistinctNames(Vec::with_capacity(names.len()));
    names.iter().for_each(|name| _ = distinct.add(name));
    distinct
}
