//! Builds a random program. The builder tracks the values in scope, picks among them, and converts them to the types
//! that ops require.

use std::collections::BTreeMap;

use funcify::{Builder, DType, Dim, Error, Shape, Sizes, TensorType, Value, concat};

use super::choices::Choices;
use super::test_program::MAX_ARGUMENT;
use super::{Rules, control, elementwise, integers, loops, recurrences, rules, structure, transforms};

/// The maximum magnitude of floats, small enough for accurate finite differences.
pub(super) const MAX_FLOAT: f64 = 4.0;
/// The maximum magnitude of a loop's carries.
pub(super) const MAX_CARRY: f64 = 2.0;
/// The maximum number of elements of a value.
const MAX_ELEMENTS: usize = 40;
/// The maximum depth of nested bodies.
const MAX_DEPTH: usize = 3;

/// A value in scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// An approximate upper bound on the magnitude of the elements.
    pub(super) bound: f64,
    used: bool,
}

/// A random program under construction.
pub(super) struct ProgramBuilder<'a> {
    pub(super) choices: &'a mut Choices,
    /// The sizes of the program's symbols at run time.
    pub(super) sizes: &'a Sizes,
    /// The values in scope: those of the open body and of all enclosing bodies.
    pub(super) scope: Vec<Entry>,
    /// The number of ops, loops and other constructs that may still be added.
    pub(super) fuel: usize,
    /// The number of open bodies.
    pub(super) depth: usize,
    /// `true` if the program may use `stop_gradient` and floats narrower than f64. The derivatives then disagree with
    /// finite differences.
    pub(super) is_inexact: bool,
    /// `true` if the open body is a separate graph. Its loops must not bind symbols, because an outer loop may
    /// already have bound a symbol of the same name.
    pub(super) is_separate_graph: bool,
    /// The kind of custom derivative rules in the program.
    pub(super) rules: Rules,
    /// `true` if forward mode will differentiate the ops that are added next. New custom derivative rules must then be
    /// linear.
    pub(super) is_linear: bool,
    /// The number of times that each kind of part was added.
    pub(super) parts: BTreeMap<&'static str, usize>,
    /// The last error that occurred while building a separate graph, if any.
    pub(super) error: Option<Error>,
}

pub(super) type Part = fn(&mut ProgramBuilder<'_>);

/// The parts that contain no loops, with their weights.
const OPS: [(usize, Part); 8] = [
    (14, elementwise::unary),
    (14, elementwise::binary),
    (8, elementwise::kinked),
    (18, structure::movement),
    (12, structure::indexing),
    (10, structure::reduction),
    (10, structure::product),
    (10, integers::part),
];

const LOOPS: [(usize, Part); 12] = [
    (16, loops::scan),
    (12, loops::scan_until),
    (22, recurrences::recurrence),
    (14, recurrences::raw_loop),
    (10, control::while_loop_part),
    (10, control::branches),
    (6, loops::counted_loop),
    (5, loops::map_rows),
    (8, control::associative),
    (12, control::ops_where_defined),
    (16, transforms::transform),
    (8, rules::function),
];

/// The weighted list of parts with bodies that can be used in a separate graph. The loops of these parts bind no
/// symbols.
const LOOPS_WITHOUT_SYMBOLS: [(usize, Part); 5] = [
    (16, loops::scan),
    (14, recurrences::raw_loop),
    (10, control::branches),
    (16, transforms::transform),
    (4, rules::function),
];

impl<'a> ProgramBuilder<'a> {
    /// Creates a builder for an empty program, with no fuel.
    pub(super) fn new(choices: &'a mut Choices, sizes: &'a Sizes, rules: Rules) -> Self {
        ProgramBuilder {
            choices,
            sizes,
            scope: Vec::new(),
            fuel: 0,
            depth: 0,
            is_inexact: false,
            is_separate_graph: false,
            rules,
            is_linear: false,
            parts: BTreeMap::new(),
            error: None,
        }
    }

    /// Declares random inputs of the program, and adds them to the scope.
    pub(super) fn declare(&mut self, g: &Builder) {
        const FLOATS: [&str; 10] = [
            "f64[T]",
            "f64[]",
            "f64[T,N]",
            "f64[N]",
            "f64[T+1,2]",
            "f64[N,N]",
            "f64[3]",
            "f64[T,2,2]",
            "f64[2,3]",
            "f64[T+2]",
        ];
        for index in 0..2 + self.choices.below(2) {
            let ty = self.choices.pick(&FLOATS);
            let value = g.input(&format!("x{index}"), ty);
            self.add(value, MAX_ARGUMENT);
        }
        // This input binds the symbols T and N, in case the other inputs do not.
        let value = g.input("rows", "f64[T,N]");
        self.add(value, MAX_ARGUMENT);
        if self.choices.one_in(2) {
            let value = g.input("n", "i64[]");
            self.add(value, 3.0);
        }
        if self.choices.one_in(5) {
            let value = g.static_input("count", DType::I64);
            self.add(value, 3.0);
        }
        if self.choices.one_in(3) {
            let value = g.input("is", "i64[T]");
            self.add(value, 3.0);
        }
        if self.choices.one_in(3) {
            let ty = self.choices.pick(&["bool[]", "bool[T]", "bool[N]"]);
            let value = g.input("b", ty);
            self.add(value, 1.0);
        }
    }

    /// Increments the count of this kind of part.
    pub(super) fn count(&mut self, part: &'static str) {
        *self.parts.entry(part).or_default() += 1;
    }

    /// Adds up to `parts` random parts, as long as fuel remains.
    pub(super) fn block(&mut self, parts: usize) {
        for _ in 0..parts {
            if self.fuel == 0 {
                return;
            }
            self.fuel -= 1;
            let loops = [3, 4, 8, usize::MAX][self.depth.min(3)];
            let is_loop = self.depth < MAX_DEPTH && self.choices.below(loops) + 1 == loops;
            let part = match is_loop {
                true if self.is_separate_graph => self.choices.pick_weighted(&LOOPS_WITHOUT_SYMBOLS),
                true => self.choices.pick_weighted(&LOOPS),
                false => self.choices.pick_weighted(&OPS),
            };
            part(self);
        }
    }

    /// Builds a body: adds these parameters to the scope, adds up to three random parts, calls `f`, and restores the
    /// scope.
    pub(super) fn build_body<R>(&mut self, params: Vec<Entry>, f: impl FnOnce(&mut Self) -> R) -> R {
        let outside = self.scope.len();
        self.depth += 1;
        self.scope.extend(params);
        let parts = 1 + self.choices.below(3);
        self.block(parts);
        let result = f(self);
        self.scope.truncate(outside);
        self.depth -= 1;
        result
    }

    /// Builds a body that forward mode will differentiate, so custom derivative rules in it must be linear. Otherwise
    /// works like [`build_body`](ProgramBuilder::build_body).
    pub(super) fn build_linear_body<R>(&mut self, params: Vec<Entry>, f: impl FnOnce(&mut Self) -> R) -> R {
        let is_linear = std::mem::replace(&mut self.is_linear, true);
        let result = self.build_body(params, f);
        self.is_linear = is_linear;
        result
    }

    /// Creates a scope entry for a value, marked as unused.
    pub(super) fn entry(value: Value, bound: f64) -> Entry {
        Entry { value, bound, used: false }
    }

    /// Adds a value to the scope. First sums over axis 0 if the value has too many elements or axes, and limits its
    /// magnitude if its bound is too large.
    pub(super) fn add(&mut self, value: Value, bound: f64) {
        let mut value = value;
        let mut bound = bound;
        if (self.elements(value) > MAX_ELEMENTS || value.rank() > 3) && value.rank() > 0 && value.dtype() != DType::Bool
        {
            (value, bound) = (value.sum(0), 3.0 * bound);
        }
        let ty = value.ty();
        if ty.dtype == DType::F64 && bound > MAX_FLOAT {
            (value, bound) = self.limit_magnitude(value, bound, MAX_FLOAT);
        }
        if ty.dtype.is_int() && bound > 100.0 {
            (value, bound) = (value % 7, 7.0);
        }
        self.scope.push(Self::entry(value, bound));
    }

    /// Limits the magnitude of a value's elements if its bound exceeds `limit`. Returns the value and its new bound.
    pub(super) fn limit_magnitude(&mut self, value: Value, bound: f64, limit: f64) -> (Value, f64) {
        if bound <= limit {
            return (value, bound);
        }
        let tame = match self.choices.below(3) {
            0 => value * (limit / bound),
            1 => value.tanh(),
            _ => (value * (limit / bound).sqrt()).sin(),
        };
        (tame, limit)
    }

    /// Returns the size of a dimension, or `None` if a loop binds one of its symbols.
    pub(super) fn size(&self, dim: &Dim) -> Option<usize> {
        dim.value(self.sizes).ok().and_then(|size| usize::try_from(size).ok())
    }

    /// Returns the number of elements of a value, assuming size 3 for each unknown dimension.
    fn elements(&self, value: Value) -> usize {
        value.shape().dims().iter().map(|dim| self.size(dim).unwrap_or(3)).product()
    }

    /// Returns `true` if all sizes of the type are known when the program starts.
    pub(super) fn has_known_sizes(&self, ty: &TensorType) -> bool {
        ty.shape.dims().iter().all(|dim| self.size(dim).is_some())
    }

    /// Picks a value whose type satisfies `fits`, preferring recent and unused values. Returns `None` if no value fits.
    pub(super) fn pick(&mut self, fits: impl Fn(&TensorType) -> bool) -> Option<Entry> {
        let mut fitting: Vec<usize> =
            (0..self.scope.len()).rev().filter(|index| fits(&self.scope[*index].value.ty())).collect();
        let unused: Vec<usize> = fitting.iter().copied().filter(|index| !self.scope[*index].used).collect();
        if !unused.is_empty() && !self.choices.one_in(3) {
            fitting = unused;
        }
        // Taking the minimum of two random numbers favours recent values.
        let place = self.choices.below(fitting.len()).min(self.choices.below(fitting.len()));
        let index = *fitting.get(place)?;
        self.scope[index].used = true;
        Some(self.scope[index])
    }

    /// Picks a float value of any shape, or creates a constant if no float is in scope.
    pub(super) fn float(&mut self) -> Entry {
        self.pick(|ty| ty.dtype == DType::F64).unwrap_or_else(|| Self::entry(funcify::constant(0.5f64), 1.0))
    }

    /// Picks a float value with known sizes and rank `rank` or higher. Returns `None` if none is in scope.
    pub(super) fn float_of_rank(&mut self, rank: usize) -> Option<Entry> {
        let fixed: Vec<bool> = self.scope.iter().map(|entry| self.has_known_sizes(&entry.value.ty())).collect();
        let types: Vec<TensorType> =
            self.scope.iter().zip(fixed).filter(|(_, fixed)| *fixed).map(|(entry, _)| entry.value.ty()).collect();
        self.pick(|ty| ty.dtype == DType::F64 && ty.rank() >= rank && types.contains(ty))
    }

    /// Picks a float value and one of its axes. Returns the value, the axis, and the axis's size, or `None` if no value
    /// fits.
    pub(super) fn float_with_axis(&mut self) -> Option<(Entry, i64, usize)> {
        let entry = self.float_of_rank(1)?;
        let axis = self.choices.below(entry.value.rank());
        let size = self.size(&entry.value.shape()[axis])?;
        Some((entry, axis as i64, size))
    }

    /// Picks a float value, and converts it to the given shape if necessary.
    pub(super) fn float_of_shape(&mut self, shape: &Shape) -> Entry {
        let exact = |ty: &TensorType| ty.dtype == DType::F64 && ty.shape == *shape;
        if !self.choices.one_in(3)
            && let Some(entry) = self.pick(exact)
        {
            return entry;
        }
        let Entry { value, bound, .. } = self.float();
        let (value, bound) = self.convert_to_shape(value, bound, shape);
        Self::entry(value, bound)
    }

    /// Converts a float value to the given shape.
    pub(super) fn convert_to_shape(&mut self, value: Value, bound: f64, shape: &Shape) -> (Value, f64) {
        let from = value.shape();
        let (rank, to_rank) = (from.rank(), shape.rank());
        if from == *shape {
            return (value, bound);
        }
        if rank <= to_rank && shape.dims()[to_rank - rank..] == *from.dims() {
            return (value.broadcast_to(shape), bound);
        }
        if from.elements() == shape.elements() {
            return (value.reshape(shape), bound);
        }
        // If the number of rows is the same, sum each row and broadcast the sums.
        if rank >= 1 && to_rank >= 1 && from[0] == shape[0] {
            let axes: Vec<i64> = (1..rank as i64).collect();
            let rows = axes.iter().rev().fold(value, |value, axis| value.sum(*axis));
            let column = (1..to_rank).fold(rows, |value, _| value.unsqueeze(-1));
            return self.limit_magnitude(column.broadcast_to(shape), bound * 6.0, bound.max(1.0));
        }
        let size = if rank > 0 { self.size(&from[0]) } else { None };
        let number = match size {
            Some(1..) if self.choices.one_in(2) => {
                let row = value.index(0, -1);
                (row.sum(..), bound * 3.0)
            }
            _ => (value.sum(..), bound * 6.0),
        };
        let (number, bound) = self.limit_magnitude(number.0, number.1, bound.max(1.0));
        (number.broadcast_to(shape), bound)
    }

    /// Picks a float value, and converts it to a scalar if necessary.
    pub(super) fn number(&mut self) -> Entry {
        self.float_of_shape(&Shape::scalar())
    }

    /// Picks an integer scalar, or computes one from a value in scope.
    pub(super) fn integer(&mut self) -> Value {
        let picked = self.pick(|ty| ty.dtype == DType::I64);
        match picked {
            Some(entry) if entry.value.rank() == 0 => entry.value,
            Some(entry) => entry.value.sum(..),
            None => {
                let number = self.number().value;
                (number * 2.0).floor().cast(DType::I64)
            }
        }
    }

    /// Returns an integer scalar in `0..=most`, computed from a value in scope so that it may differ between lanes.
    pub(super) fn integer_to(&mut self, most: usize) -> Value {
        let value = self.integer();
        match self.choices.below(2) {
            0 => value.maximum(0).minimum(most as i64),
            _ => value.abs() % (most as i64 + 1),
        }
    }

    /// Picks integers of the given shape, or computes them from a value in scope.
    pub(super) fn integers(&mut self, shape: &Shape) -> Value {
        if let Some(entry) = self.pick(|ty| ty.dtype == DType::I64 && ty.shape == *shape) {
            return entry.value;
        }
        if self.choices.one_in(2) {
            return self.integer().broadcast_to(shape);
        }
        (self.float_of_shape(shape).value * 2.0).round().cast(DType::I64)
    }

    /// Picks a boolean scalar, or computes one from values in scope.
    pub(super) fn boolean(&mut self) -> Value {
        self.booleans(&Shape::scalar())
    }

    /// Picks booleans of the given shape, or computes them from values in scope.
    pub(super) fn booleans(&mut self, shape: &Shape) -> Value {
        let picked = self.pick(|ty| ty.dtype == DType::Bool);
        match picked {
            Some(entry) if entry.value.shape() == *shape => entry.value,
            Some(entry) if shape.rank() == 0 && self.choices.one_in(2) => entry.value.any(..),
            Some(entry) if shape.rank() == 0 => entry.value.all(..),
            _ if self.choices.one_in(3) => self.integers(shape).gt(1),
            _ => {
                let (left, threshold) = (self.float_of_shape(shape).value, self.choices.pick(&[0.1, -0.4, 0.6]));
                if self.choices.one_in(2) { left.lt(self.float_of_shape(shape).value) } else { left.gt(threshold) }
            }
        }
    }

    /// Returns the unused floats from index `start` of the scope onwards, and marks them as used.
    pub(super) fn take_unused_floats(&mut self, start: usize) -> Vec<Value> {
        let left: Vec<usize> = (start..self.scope.len())
            .filter(|index| !self.scope[*index].used && self.scope[*index].value.dtype() == DType::F64)
            .collect();
        left.iter().for_each(|index| self.scope[*index].used = true);
        left.iter().map(|index| self.scope[*index].value).collect()
    }

    /// Returns the outputs of the program: its unused floats, or any float if all are used, and at most one integer.
    pub(super) fn outputs(&mut self) -> Vec<Value> {
        let mut outputs = self.take_unused_floats(0);
        outputs.reverse();
        if outputs.len() > 3 {
            let numbers: Vec<Value> = outputs.split_off(2).iter().map(|value| value.sum(..).unsqueeze(0)).collect();
            outputs.push(concat(&numbers, 0).sum(0));
        }
        if outputs.is_empty() {
            outputs.push(self.float().value);
        }
        if let Some(entry) = self.pick(|ty| ty.dtype == DType::I64) {
            outputs.push(entry.value);
        }
        outputs
    }
}
