//! Imports a record of Burn's ops into a funcify graph.
//!
//! Each family of Burn's ops has a file with a table that maps each op to funcify's ops. The importer rejects an op
//! that has no row in these tables, and names it in the error. It also checks every result against the type that Burn
//! recorded, and returns an error if a row of a table produces the wrong shape or dtype.

mod base;
mod float;
mod module;
mod numeric;

use funcify_core::{Shape, constant};

use super::inner::{self, InnerLoop};
use super::record::{Record, dtype_of, op_name, unsupported};
use super::*;
use crate::data;

/// The values of an op's results, or `None` if the table has no row for the op.
type Imported = Option<Vec<Value>>;

/// The values of the tensors imported so far, keyed by tensor id.
struct Env {
    values: RefCell<HashMap<u64, Value>>,
}

/// Adds a record's ops to the open graph and returns the values of its results.
///
/// # Errors
/// Returns `Unsupported` if an op has no translation; the error names the op.
pub(crate) fn import(at: &Place, record: &Record, inputs: &[Value]) -> Result<Vec<Value>> {
    let env = Env { values: RefCell::new((0..).zip(inputs.iter().copied()).collect()) };
    for (number, data) in &record.constants {
        let dtype = crate::dtypes::from_burn(data.dtype());
        let host = dtype.map(|dtype| data::host(data.clone(), dtype, data.shape().as_slice()));
        let host = host.transpose().map_err(|error| unsupported(at, "a constant", &error.to_string(), ""))?;
        if let Some(host) = host {
            env.values.borrow_mut().insert(*number, constant(host));
        }
    }
    env.add(at, &record.ops)?;
    let missing =
        || unsupported(at, "the closure", "one of its results was not recorded", "return values that it computes");
    record.outputs.iter().map(|id| env.get_by_id(*id).ok_or_else(missing)).collect()
}

fn no_translation_error(at: &Place, op: &OperationIr) -> funcify_core::Error {
    let name = op_name(op);
    let (reason, fix) = match name.as_str() {
        "Random" | "IntRandom" => {
            ("the values would be drawn once, during recording", "draw them beforehand and pass them as an argument")
        }
        "Custom" => ("ops of an extension cannot be translated", "use Burn's own ops"),
        _ => ("it has no translation to funcify's ops", "use other ops of Burn, or write the program in funcify"),
    };
    unsupported(at, &format!("Burn's op `{name}`"), reason, fix)
}

impl Env {
    /// Adds these ops, including inner loops, to the open graph, and stores the values of their results.
    fn add(&self, at: &Place, ops: &[OperationIr]) -> Result<()> {
        let mut next = 0;
        while let Some(op) = ops.get(next) {
            next += 1;
            if let Some((inner, begin)) = inner::loop_begun_by(op) {
                let missing = || unsupported(at, "a loop in the closure", "its body has failed", "return its error");
                let (body, end) = inner::split_body(&ops[next..]).ok_or_else(missing)?;
                let results = self.add_loop(at, &inner, begin, body, end)?;
                self.bind(at, &ops[next + body.len()], results)?;
                next += body.len() + 1;
            } else {
                self.bind(at, op, self.row(op).ok_or_else(|| no_translation_error(at, op))?)?;
            }
        }
        Ok(())
    }

    /// Stores these values as the results of an op, after checking their types.
    fn bind(&self, at: &Place, op: &OperationIr, values: Vec<Value>) -> Result<()> {
        for (tensor, value) in op.outputs().zip(values) {
            let value = self.check_type(at, op, tensor, value)?;
            self.values.borrow_mut().insert(tensor.id.value(), value);
        }
        Ok(())
    }

    /// Adds an inner loop to the open graph and returns the values of its results.
    fn add_loop(
        &self,
        at: &Place,
        inner: &InnerLoop,
        begin: &CustomOpIr,
        body: &[OperationIr],
        end: &CustomOpIr,
    ) -> Result<Vec<Value>> {
        let not_recorded = || unsupported(at, "a loop in the closure", "it uses a tensor that was not recorded", "");
        let all = |tensors: &[TensorIr]| tensors.iter().map(|tensor| self.get(tensor)).collect::<Option<Vec<_>>>();
        let mut init = all(&begin.inputs).ok_or_else(not_recorded)?;
        let xs = init.split_off(inner.carries);
        let options = ScanOptions::new().length(inner.steps);
        let options = if inner.is_reversed { options.reverse() } else { options };
        let deferred = DeferredError::default();
        let (mut results, ys) = scan_with(options, init, xs, |carry: Vec<Value>, row: Vec<Value>| {
            let params = begin.outputs.iter().map(|tensor| tensor.id.value());
            self.values.borrow_mut().extend(params.zip(carry.iter().chain(&row).copied()));
            let results = self.add(at, body).and_then(|()| all(&end.inputs).ok_or_else(not_recorded));
            deferred.unwrap_or_keep(results.map(|results| split_carry(results, inner.carries)), || (carry, Vec::new()))
        });
        results.extend(ys);
        deferred.into_result(Ok(results))
    }

    fn row(&self, op: &OperationIr) -> Imported {
        match op {
            OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => base::row(self, op),
            OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => numeric::row(self, op),
            OperationIr::Float(_, op) => float::row(self, op),
            OperationIr::Int(op) => numeric::int_row(self, op),
            OperationIr::Bool(op) => numeric::bool_row(self, op),
            OperationIr::Activation(op) => float::activation_row(self, op),
            OperationIr::Module(op) => module::row(self, op),
            OperationIr::Custom(_) => one(self.get(stops::as_stop(op)?.inputs.first()?)?.stop_gradient()),
            OperationIr::Init(_) | OperationIr::Drop(_) | OperationIr::Distributed(_) => None,
        }
    }

    fn get_by_id(&self, id: u64) -> Option<Value> {
        self.values.borrow().get(&id).copied()
    }

    /// Returns the value of an operand, or `None` if the operand was not recorded.
    fn get(&self, tensor: &TensorIr) -> Option<Value> {
        self.get_by_id(tensor.id.value())
    }

    /// Returns the values of two operands, or `None` if either was not recorded. If both are integers, casts the second
    /// to the dtype of the first, because Burn allows their dtypes to differ: for example, a constant may have the
    /// default integer dtype.
    fn pair(&self, left: &TensorIr, right: &TensorIr) -> Option<(Value, Value)> {
        let (left, right) = (self.get(left)?, self.get(right)?);
        let is_mixed = left.dtype() != right.dtype() && left.dtype().is_int() && right.dtype().is_int();
        Some((left, if is_mixed { right.cast(left.dtype()) } else { right }))
    }

    /// Checks that an op's result has the type that Burn recorded, and returns the result. Casts an integer result to
    /// the recorded integer dtype first.
    fn check_type(&self, at: &Place, op: &OperationIr, tensor: &TensorIr, value: Value) -> Result<Value> {
        let Some(dtype) = dtype_of(tensor) else {
            let what = format!("Burn's op `{}` with a {:?} result", op_name(op), tensor.dtype);
            return Err(unsupported(at, &what, "funcify does not have this dtype", "use another dtype"));
        };
        let expected = TensorType::new(dtype, shape(tensor));
        let value = match value.dtype() {
            found if found != dtype && found.is_int() && dtype.is_int() => value.cast(dtype),
            _ => value,
        };
        match value.ty() {
            found if found == expected => Ok(value),
            // Burn has no scalars, so rank 0 means that an earlier op failed. The open graph has already recorded the
            // error of that op.
            found if found.rank() == 0 => Ok(value.reshape(expected.shape)),
            found => {
                let what = format!("Burn's op `{}`", op_name(op));
                let reason = format!("its result is {found} here and {expected} in Burn");
                Err(unsupported(at, &what, &reason, "report this as a bug in funcify"))
            }
        }
    }
}

/// Returns the shape that Burn recorded for a tensor.
fn shape(tensor: &TensorIr) -> Shape {
    Shape::from(sizes(tensor))
}

fn sizes(tensor: &TensorIr) -> &[usize] {
    tensor.shape.as_slice()
}

/// Converts a scalar to a constant with the dtype of `like`.
fn number(scalar: &ScalarIr, like: Value) -> Value {
    let host = match *scalar {
        ScalarIr::Float(number) => HostTensor::scalar(number),
        ScalarIr::Int(number) => HostTensor::scalar(number),
        ScalarIr::UInt(number) => HostTensor::scalar(number as i64),
        ScalarIr::Bool(flag) => HostTensor::scalar(flag),
    };
    constant(host.cast(like.dtype()))
}

/// Converts a scalar to `f64`.
fn float_of(scalar: &ScalarIr) -> f64 {
    match *scalar {
        ScalarIr::Float(number) => number,
        ScalarIr::Int(number) => number as f64,
        ScalarIr::UInt(number) => number as f64,
        ScalarIr::Bool(flag) => f64::from(u8::from(flag)),
    }
}

/// Returns the results of an op whose only result is `value`.
fn one(value: Value) -> Imported {
    Some(vec![value])
}

/// Returns whether a value is boolean.
fn is_bool(value: Value) -> bool {
    value.dtype() == DType::Bool
}
