//! Builds a program from choices. Provides the helpers that all families share. The helpers declare inputs, create
//! aliases of values, apply random ops, and convert values to other shapes.

use funcify::ops::{Broadcast, Cast, Concat, Pad, Reshape, Slice};
use funcify::prelude::*;
use funcify::{Shape, custom_vjp};

use super::fill::Fill;
use super::*;

/// A program under construction. Its methods take `&self`, so that the closures for bodies can share a draft.
pub(super) struct Draft<'a, 'b> {
    choices: RefCell<&'a mut Choices>,
    builder: &'b Builder,
    /// The float type of most values.
    pub(super) dtype: DType,
    /// The kind of elements of each declared input.
    fills: RefCell<Vec<Fill>>,
    /// Values to use instead of inputs: results that another template family built, or rows that an outer loop reads.
    given: RefCell<Vec<Value>>,
    /// `true` inside the body of an outer loop, where no inputs can be declared and `given` must supply all values.
    is_inside: bool,
    /// The inputs that the family requested, each with its type, shape and kind of elements.
    requested_inputs: RefCell<Vec<(DType, Vec<usize>, Fill)>>,
}

impl<'a, 'b> Draft<'a, 'b> {
    pub(super) fn new(choices: &'a mut Choices, builder: &'b Builder, dtype: DType) -> Self {
        Draft {
            choices: RefCell::new(choices),
            builder,
            dtype,
            fills: RefCell::default(),
            given: RefCell::default(),
            is_inside: false,
            requested_inputs: RefCell::default(),
        }
    }

    /// Creates a draft inside the body of a loop. Requests for inputs return the values in `given`, in order.
    pub(super) fn inside(choices: &'a mut Choices, builder: &'b Builder, dtype: DType, mut given: Vec<Value>) -> Self {
        given.reverse();
        let draft = Draft { is_inside: true, ..Draft::new(choices, builder, dtype) };
        draft.given.replace(given);
        draft
    }

    /// Offers values that later requests for inputs may return.
    pub(super) fn offer_as_inputs(&self, values: &[Value]) {
        self.given.borrow_mut().extend(values);
    }

    pub(super) fn fills(self) -> Vec<Fill> {
        self.fills.into_inner()
    }

    pub(super) fn requested_inputs(&self) -> Vec<(DType, Vec<usize>, Fill)> {
        self.requested_inputs.borrow().clone()
    }

    /// Returns a random number in `0..count`. Shrinking prefers smaller numbers.
    pub(super) fn below(&self, count: usize) -> usize {
        self.choices.borrow_mut().below(count)
    }

    pub(super) fn one_in(&self, count: usize) -> bool {
        self.choices.borrow_mut().one_in(count)
    }

    /// Picks an item uniformly. Shrinking prefers the first item.
    pub(super) fn pick<T: Clone>(&self, from: &[T]) -> T {
        self.choices.borrow_mut().pick(from)
    }

    /// Picks an item with probability proportional to its weight.
    pub(super) fn pick_weighted<T: Copy>(&self, from: &[(usize, T)]) -> T {
        self.choices.borrow_mut().pick_weighted(from)
    }

    /// Declares a float input of this shape, or returns a value of this shape that was offered with
    /// [`offer_as_inputs`](Draft::offer_as_inputs).
    pub(super) fn input(&self, shape: &[usize]) -> Value {
        self.input_of(self.dtype, shape, Fill::Floats)
    }

    /// Declares an input with this type, shape and kind of elements, or returns an offered value that fits.
    pub(super) fn input_of(&self, dtype: DType, shape: &[usize], fill: Fill) -> Value {
        self.requested_inputs.borrow_mut().push((dtype, shape.to_vec(), fill));
        if self.is_inside {
            return self.given.borrow_mut().pop().expect("the dry run requested the same inputs");
        }
        let fits = |value: &Value| value.dtype() == dtype && shape_of(*value).as_deref() == Some(shape);
        let fitting = self.given.borrow().iter().position(fits);
        if let Some(index) = fitting.filter(|_| matches!(fill, Fill::Floats)) {
            return self.given.borrow_mut().swap_remove(index);
        }
        let mut fills = self.fills.borrow_mut();
        fills.push(fill);
        self.builder.input(&format!("x{}", fills.len() - 1), TensorType::new(dtype, shape_from(shape)))
    }

    /// Picks a number of steps: usually a small number, sometimes one just below or above a threshold of the planner.
    pub(super) fn steps(&self) -> usize {
        const FEW: [usize; 9] = [3, 2, 4, 5, 1, 6, 7, 8, 0];
        const THRESHOLDS: [usize; 14] = [12, 13, 16, 32, 33, 34, 63, 64, 65, 66, 255, 256, 257, 300];
        match self.below(8) {
            0..=6 => self.pick(&FEW),
            _ => self.pick(&THRESHOLDS),
        }
    }

    /// Picks the direction of a loop: forward or reverse.
    pub(super) fn direction(&self) -> ScanOptions {
        if self.one_in(3) { ScanOptions::new().reverse() } else { ScanOptions::new() }
    }

    /// Returns another value with the same elements and shape, computed by an op that the planner may turn into an
    /// alias or a copy.
    pub(super) fn alias(&self, value: Value) -> Value {
        let Some(shape) = shape_of(value) else { return value };
        let rank = shape.len();
        match self.below(20) {
            0 | 1 => value.stop_gradient(),
            2 => apply(Cast { dtype: value.dtype() }, &[value])[0],
            3 => value.unsqueeze(0).reshape(shape_from(&shape)),
            4 => checkpoint(|| value),
            5 => cond(constant(true), || value, || value * 0.5),
            6 => switch(constant(0i64), [&|| value, &|| value * 2.0]),
            7 => scan_with(ScanOptions::new().length(0), value, (), |value, ()| (value * 0.5, ())).0,
            8 if value.dtype().is_float() => custom_vjp(value, |x| x, |x| (x, ()), |(), ct: Value| ct * 0.5),
            9 => value.unsqueeze(0).sum(0),
            10 => apply(Concat { axis: 0 }, &[value.unsqueeze(0)])[0].squeeze(0),
            11 if rank > 0 => {
                let (low, high) = (0.into(), 0.into());
                apply(Pad { axis: 0, low, high, interior: 0 }, &[value, zero_of(value)])[0]
            }
            12 if rank > 0 => apply(Slice { axis: 0, start: 0.into(), limit: shape[0].into(), step: 1 }, &[value])[0],
            13 if rank > 1 => value.t().t(),
            14 if rank > 0 => value.reverse(0).reverse(0),
            15 => apply(Broadcast { shape: shape_from(&shape) }, &[value])[0],
            16 => while_loop_bounded(0, value, |_| constant(true), |value| value * 0.5),
            17 => value.unsqueeze(0).max(0),
            18 if rank > 0 => value.take(0, iota(shape[0], DType::I64)),
            19 => apply(Reshape { shape: shape_from(&shape) }, &[value])[0],
            _ => value.stop_gradient(),
        }
    }

    /// Returns elements of a value in another order or shape, usually as a view that is not contiguous.
    pub(super) fn view(&self, value: Value) -> Value {
        let Some(shape) = shape_of(value) else { return value };
        let rank = shape.len();
        match self.below(8) {
            0 if rank > 1 => value.t(),
            1 if rank > 0 => value.reverse(self.below(rank) as i64),
            2 if rank > 0 && shape[0] > 1 => value.slice(0, 1..),
            3 if rank > 0 && shape[rank - 1] > 1 => value.slice(-1, ..1),
            4 => value.broadcast_to(shape_from(&[&[2], shape.as_slice()].concat())),
            5 if rank > 0 && shape[0] > 0 => value.index(0, -1),
            6 if rank > 0 && shape[0] > 1 => concat(&[value.slice(0, 1..), value.slice(0, ..1)], 0),
            7 if rank > 0 => value.pad(0, 1, 1, 0.25),
            _ => value.reshape([shape.iter().product::<usize>()]),
        }
    }

    /// Converts a value to the given shape by reshaping, broadcasting or summing it.
    pub(super) fn fit(&self, value: Value, shape: &[usize]) -> Value {
        let Some(own) = shape_of(value) else { return value };
        if own == shape {
            return value;
        }
        let count: usize = shape.iter().product();
        if own.iter().product::<usize>() == count && count > 0 && self.one_in(2) {
            return value.reshape(shape_from(shape));
        }
        if own.len() <= shape.len() && shape[shape.len() - own.len()..] == own {
            return value.broadcast_to(shape_from(shape));
        }
        if own.len() > shape.len() && own[own.len() - shape.len()..] == *shape {
            let axes = own.len() - shape.len();
            return (0..axes).fold(value, |value, _| value.sum(0));
        }
        (value.sum(..) * 0.25).broadcast_to(shape_from(shape))
    }

    /// Applies a random op to `value`, or to `value` and `other`, which may have different shapes.
    pub(super) fn read_with(&self, value: Value, other: Value) -> Value {
        let Some(shape) = shape_of(value) else { return value };
        let rank = shape.len();
        let same = || self.fit(other, &shape);
        match self.below(14) {
            0 => value * same(),
            1 => value.tanh(),
            2 => value - same(),
            3 if rank > 0 => value.sum(-1),
            4 if rank > 0 => value.sum(0),
            5 if rank == 2 => value.matmul(value.t()),
            6 if rank == 2 => self.fit(other, &[shape[0]]).matmul(value),
            7 => value.sum(..),
            8 => select(value.gt(same()), value, same() * 0.5),
            9 if rank > 0 && !shape.contains(&0) => value.max(-1),
            10 => value.maximum(same()),
            11 => self.view(value),
            12 => same() * 0.5 - value * value,
            13 => (value * same()).exp(),
            _ => value.sin(),
        }
    }
}

/// Creates a shape with these sizes.
pub(super) fn shape_from(sizes: &[usize]) -> Shape {
    Shape::new(sizes.iter().copied())
}

/// Returns the shape of a value, or `None` if a size is not static.
pub(super) fn shape_of(value: Value) -> Option<Vec<usize>> {
    value.shape().constant()
}

/// Returns the shape of a value that has only static sizes, such as a carry or a row.
pub(super) fn sizes_of(value: Value) -> Vec<usize> {
    shape_of(value).expect("carries and rows have constant sizes")
}

fn zero_of(value: Value) -> Value {
    constant(HostTensor::zeros(value.dtype(), &[]))
}
