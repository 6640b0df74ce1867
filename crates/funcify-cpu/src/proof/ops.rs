//! Evaluates arithmetic ops over the field.

use funcify_core::ops::{self, Op, ReduceKind, ScatterMode, Words, threefry_bits};
use funcify_core::types::TensorType;
use funcify_core::{DType, HostTensor, Scalar};

use super::field::{self, INFINITY, NAN, add, mul, neg, of_signed, signed, sub};
use super::graph::{Evaluator, Grid, Meaning, NoMeaning, unknown, wrap};
use super::model::Model;
use crate::kernels::{Binary, Fold, Unary};

impl Evaluator<'_> {
    /// Evaluates an op with one result, of type `ty`. `dtypes` are the dtypes of the operands.
    pub(super) fn compute_op(
        &mut self,
        op: &Op,
        ty: &TensorType,
        dtypes: &[DType],
        operands: &[Grid],
    ) -> Meaning<Grid> {
        let of = dtypes.first().copied().unwrap_or(ty.dtype);
        match (op, operands) {
            (Op::Unary(op), [x]) => {
                let (op, model) = (*op, self.model);
                let cells = x.cells.iter().map(|x| match of.is_float() {
                    true => Some(self.round(model.unary(unary_symbol(op)?, *x), of)),
                    false => integer_unary(op, *x, of, model),
                });
                collect_grid(&x.shape, cells, op)
            }
            (Op::Binary(op), [x, y]) => {
                let model = self.model;
                let cells = pairs(x, y).map(|(x, y)| match of.is_float() {
                    true => Some(self.round(model.binary(binary_symbol(*op)?, x, y), of)),
                    false => integer_binary(*op, x, y, of, model),
                });
                collect_grid(&x.shape, cells, op)
            }
            (Op::Bits(op), _) => {
                let (x, y) = (&operands[0], &operands[operands.len() - 1]);
                let cells = pairs(x, y).map(|(x, y)| wrap(bits(*op, signed(x), signed(y), of), of));
                Ok(Grid::new(x.shape.clone(), cells.collect()))
            }
            (Op::Compare(op), [x, y]) => {
                let model = self.model;
                let of = |op, x, y| model.binary(op, x, y);
                let cells = pairs(x, y).map(|(x, y)| match op {
                    ops::Compare::Eq => of(Binary::Equal, x, y),
                    ops::Compare::Ne => of(Binary::NotEqual, x, y),
                    ops::Compare::Lt => of(Binary::Less, x, y),
                    ops::Compare::Le => of(Binary::LessEqual, x, y),
                    ops::Compare::Gt => of(Binary::Less, y, x),
                    ops::Compare::Ge => of(Binary::LessEqual, y, x),
                });
                Ok(Grid::new(x.shape.clone(), cells.collect()))
            }
            (Op::Predicate(op), [x]) => Ok(x.map(|x| {
                u64::from(match op {
                    ops::Predicate::IsNan => x == NAN,
                    ops::Predicate::IsFinite => x != NAN && signed(x).unsigned_abs() != INFINITY,
                })
            })),
            (Op::Select(_), [holds, yes, no]) => {
                let cells = holds.cells.iter().zip(pairs(yes, no));
                let cells = cells.map(|(holds, (yes, no))| if *holds == 0 { no } else { yes });
                Ok(Grid::new(holds.shape.clone(), cells.collect()))
            }
            (Op::Cast(cast), [x]) => Ok(x.map(|x| self.cast(x, of, cast.dtype))),
            (Op::MatMul(_), [x, y]) => self.product(x, y, of),
            (Op::Reduce(reduce), [x]) => self.reduce(reduce, x, of),
            (Op::ArgMax(op), [x]) => self.largest(op.axis, x),
            (Op::Iota(_), []) => {
                let shape = self.shape(ty)?;
                let cells = (0..shape.iter().product()).map(|number: usize| number as u64);
                Ok(Grid::new(shape, cells.map(|number| of_number(number as i64, ty.dtype)).collect()))
            }
            (Op::Size(size), []) => Ok(Grid::scalar(of_number(size.dim.value(self.sizes)?, ty.dtype))),
            (Op::Constant(constant), []) => {
                let cells = constant.value.scalars().map(of_scalar).collect();
                Ok(Grid::new(constant.value.shape().to_vec(), cells))
            }
            (Op::Scatter(scatter), [x, indices, updates]) => self.scatter(scatter, x, indices, updates, of),
            (Op::Threefry(threefry), [keys, counters]) => {
                let words = |grid: &Grid| grid.cells.iter().map(|cell| *cell as u32).collect::<Vec<u32>>();
                let size = threefry.shape.value(self.sizes)?.iter().product();
                self.spend(4 * size * if threefry.words == Words::Both { 2 } else { 1 })?;
                let bits = threefry_bits(&words(keys), &words(counters), size, threefry.words);
                Ok(Grid::new(self.shape(ty)?, bits.into_iter().map(u64::from).collect()))
            }
            (Op::Cumulative(_), [x]) if x.cells.is_empty() => Ok(x.clone()),
            (op, _) => Err(unknown(ops::OpRules::name(op))),
        }
    }

    fn cast(&self, x: u64, from: DType, to: DType) -> u64 {
        match to.is_float() {
            true => self.round(x, to),
            false => cast(self.model, x, from, to),
        }
    }

    fn product(&mut self, x: &Grid, y: &Grid, of: DType) -> Meaning<Grid> {
        let rank = x.shape.len();
        let [m, k, n] = [x.shape[rank - 2], x.shape[rank - 1], y.shape[rank - 1]];
        let batches: usize = x.shape[..rank - 2].iter().product();
        self.spend(batches * m * k * n)?;
        let mut cells = Vec::with_capacity(batches * m * n);
        for batch in 0..batches {
            let (x, y) = (&x.cells[batch * m * k..], &y.cells[batch * k * n..]);
            for i in 0..m {
                for j in 0..n {
                    let sum = (0..k).fold(0, |sum, l| add(sum, mul(x[i * k + l], y[l * n + j])));
                    cells.push(self.result(sum, of));
                }
            }
        }
        let mut shape = x.shape.clone();
        shape[rank - 1] = n;
        Ok(Grid::new(shape, cells))
    }

    /// Converts a sum or a product to dtype `of`: rounds floats, and wraps integers.
    fn result(&self, cell: u64, of: DType) -> u64 {
        match of {
            of if of.is_float() => self.round(cell, of),
            DType::Bool => cell,
            of => wrap(signed(cell), of),
        }
    }

    fn reduce(&mut self, reduce: &ops::Reduce, x: &Grid, of: DType) -> Meaning<Grid> {
        let kept: Vec<usize> = (0..x.shape.len()).filter(|axis| !reduce.axes.contains(axis)).collect();
        let shape: Vec<usize> = kept.iter().map(|axis| x.shape[*axis]).collect();
        self.spend(x.cells.len())?;
        let identity = of_scalar(reduce.kind.identity(of));
        let mut cells = vec![identity; shape.iter().product()];
        let strides = strides(&shape);
        for (flat, cell) in x.cells.iter().enumerate() {
            let index = index_of(flat, &x.shape);
            let to: usize = kept.iter().zip(&strides).map(|(axis, stride)| index[*axis] * stride).sum();
            cells[to] = combine(self.model, reduce.kind, cells[to], *cell);
        }
        Ok(Grid::new(shape, cells.into_iter().map(|cell| self.result(cell, of)).collect()))
    }

    /// Returns the index of the first maximum along `axis`, for each index of the other axes. NaN counts as the
    /// maximum.
    fn largest(&mut self, axis: usize, x: &Grid) -> Meaning<Grid> {
        let mut shape = x.shape.clone();
        let count = shape.remove(axis);
        if count == 0 {
            return Err(NoMeaning::Refused("argmax over an axis of size zero".to_string()));
        }
        self.spend(x.cells.len())?;
        let inner: usize = x.shape[axis + 1..].iter().product();
        let cell = |flat: usize| {
            let start = flat / inner * inner * count + flat % inner;
            let element = |position: usize| x.cells[start + position * inner];
            let better = |best: usize, position: usize| {
                let (old, new) = (element(best), element(position));
                if old != NAN && (new == NAN || signed(new) > signed(old)) { position } else { best }
            };
            (1..count).fold(0, better) as u64
        };
        let cells = (0..shape.iter().product()).map(cell).collect();
        Ok(Grid::new(shape, cells))
    }

    fn scatter(
        &mut self,
        scatter: &ops::Scatter,
        x: &Grid,
        indices: &Grid,
        updates: &Grid,
        of: DType,
    ) -> Meaning<Grid> {
        let kind = match scatter.mode {
            ScatterMode::Set => return Err(unknown("scatter")),
            ScatterMode::Add => ReduceKind::Sum,
            ScatterMode::Mul => ReduceKind::Prod,
            ScatterMode::Max => ReduceKind::Max,
            ScatterMode::Min => ReduceKind::Min,
        };
        let strides = strides(&x.shape);
        let mut cells = (*x.cells).clone();
        for (flat, (position, update)) in pairs(indices, updates).enumerate() {
            let position = usize::try_from(signed(position)).ok();
            let Some(position) = position.filter(|position| *position < x.shape[scatter.axis]) else { continue };
            let mut index = index_of(flat, &indices.shape);
            index[scatter.axis] = position;
            let to: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
            cells[to] = self.result(combine(self.model, kind, cells[to], update), of);
        }
        Ok(Grid::new(x.shape.clone(), cells))
    }
}

/// Converts an integer to `dtype`, and returns the element that represents the result.
fn of_number(number: i64, dtype: DType) -> u64 {
    of_scalar(HostTensor::scalar(number).cast(dtype).get(0))
}

/// Collects cells into a grid. Returns an error that names `op` if a cell is `None`.
fn collect_grid(shape: &[usize], cells: impl Iterator<Item = Option<u64>>, op: impl std::fmt::Debug) -> Meaning<Grid> {
    match cells.collect::<Option<Vec<u64>>>() {
        Some(cells) => Ok(Grid::new(shape.to_vec(), cells)),
        None => Err(unknown(&format!("{op:?}"))),
    }
}

fn pairs<'g>(x: &'g Grid, y: &'g Grid) -> impl Iterator<Item = (u64, u64)> + use<'g> {
    x.cells.iter().copied().zip(y.cells.iter().copied())
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
}

fn index_of(flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = flat;
    let mut index = vec![0; shape.len()];
    for (axis, size) in shape.iter().enumerate().rev() {
        index[axis] = rest % size;
        rest /= size;
    }
    index
}

/// Converts an element of a tensor to an element of the field. The field cannot represent the minimum and maximum
/// 64-bit integers. These two integers become -inf and +inf, because programs use them as the initial values of maxima
/// and minima.
pub(super) fn of_scalar(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::Int(i64::MIN) => neg(INFINITY),
        Scalar::Int(i64::MAX) => INFINITY,
        Scalar::Int(number) => of_signed(number),
        Scalar::Bool(truth) => u64::from(truth),
        Scalar::Float(number) => field::of_f64(number),
    }
}

fn combine(model: Model, kind: ReduceKind, a: u64, b: u64) -> u64 {
    match kind {
        ReduceKind::Sum => add(a, b),
        ReduceKind::Prod => mul(a, b),
        ReduceKind::Max => model.fold(Fold::Max, a, b),
        ReduceKind::Min => model.fold(Fold::Min, a, b),
        ReduceKind::Any => u64::from(a != 0 || b != 0),
        ReduceKind::All => u64::from(a != 0 && b != 0),
    }
}

/// Converts a cell to another dtype. Does not round floats.
pub(super) fn cast(model: Model, x: u64, from: DType, to: DType) -> u64 {
    match (from, to) {
        (_, DType::Bool) => u64::from(x != 0),
        (_, to) if to.is_float() => x,
        (from, to) if from.is_float() => {
            let whole = model.unary(Unary::Trunc, x);
            let bounds = |lowest: i64, highest: i64| of_signed(signed(whole).clamp(lowest, highest));
            match to {
                _ if x == NAN => 0,
                DType::U8 => bounds(0, i64::from(u8::MAX)),
                DType::U32 => bounds(0, i64::from(u32::MAX)),
                DType::I32 => bounds(i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => whole,
            }
        }
        (_, to) => wrap(signed(x), to),
    }
}

/// Maps an op to a kernel. The ops listed first map to the kernels with the same names. Each of the other ops is listed
/// with its result: a kernel in `Some`, or `None`.
macro_rules! kernels_by_name {
    ($op:expr, $ops:ident => $kernels:ident: $($same:ident)*; $($other:ident => $kernel:expr),*) => {
        match $op {
            $(ops::$ops::$same => Some($kernels::$same),)*
            $(ops::$ops::$other => $kernel,)*
        }
    };
}

/// Returns the kernel that computes the same function as a unary op on floats, or `None` if there is no such kernel.
/// The proof represents both by the same symbol.
fn unary_symbol(op: ops::Unary) -> Option<Unary> {
    kernels_by_name! {
        op, Unary => Unary:
        Neg Abs Sign Square Exp Expm1 Log Log1p Tanh Sigmoid Sin Cos Sqrt Rsqrt Recip Tan Asin Acos Atan Sinh Cosh
        Asinh Acosh Atanh Erf Erfc ErfInv Lgamma Digamma Cbrt Floor Ceil Round Trunc;
        StopGradient => Some(Unary::Copy), Not => None
    }
}

fn binary_symbol(op: ops::Binary) -> Option<Binary> {
    kernels_by_name! {
        op, Binary => Binary: Add Sub Mul Div Rem Max Min Pow Atan2 Copysign;
        And => None, Or => None, Xor => None
    }
}

/// Multiplies two integers. A product of `u32` values can exceed the modulus of the field, so it is computed as a
/// 64-bit integer, and only its low 32 bits are kept.
fn integer_product(x: u64, y: u64, of: DType) -> u64 {
    if of == DType::U32 { wrap(signed(x).wrapping_mul(signed(y)), of) } else { mul(x, y) }
}

/// Evaluates a unary op on an integer or boolean of dtype `of`, or returns `None` if there is no rule for the op.
pub(super) fn integer_unary(op: ops::Unary, x: u64, of: DType, model: Model) -> Option<u64> {
    let number = signed(x);
    let cell = match op {
        ops::Unary::Neg => neg(x),
        ops::Unary::Abs => model.unary(Unary::Abs, x),
        ops::Unary::Sign => of_signed(number.signum()),
        ops::Unary::Square => integer_product(x, x, of),
        ops::Unary::Not if of == DType::Bool => return Some(u64::from(x == 0)),
        ops::Unary::Not => of_signed(!number),
        ops::Unary::StopGradient => x,
        _ => return None,
    };
    Some(if of == DType::Bool { cell } else { wrap(signed(cell), of) })
}

pub(super) fn integer_binary(op: ops::Binary, x: u64, y: u64, of: DType, model: Model) -> Option<u64> {
    let (i, j) = (signed(x), signed(y));
    let is_bool = of == DType::Bool;
    let cell = match op {
        ops::Binary::And => of_signed(i & j),
        ops::Binary::Or => of_signed(i | j),
        ops::Binary::Xor => of_signed(i ^ j),
        _ if is_bool => return None,
        ops::Binary::Add => add(x, y),
        ops::Binary::Sub => sub(x, y),
        ops::Binary::Mul => integer_product(x, y, of),
        ops::Binary::Div => model.quotient(x, y),
        ops::Binary::Rem if j == 0 => x,
        ops::Binary::Rem => of_signed(i.wrapping_rem(j)),
        ops::Binary::Max => model.max(x, y),
        ops::Binary::Min => model.min(x, y),
        ops::Binary::Pow => of_signed(ops::integer_power(i, j)),
        ops::Binary::Atan2 | ops::Binary::Copysign => return None,
    };
    Some(if is_bool { cell } else { wrap(signed(cell), of) })
}

/// Evaluates a bitwise op on integers of dtype `of`.
pub(super) fn bits(op: ops::Bits, x: i64, y: i64, of: DType) -> i64 {
    let bits = 8 * of.size() as u32;
    match op {
        ops::Bits::ShiftLeft => ops::shift_left(x, y, bits),
        ops::Bits::ShiftRightArithmetic => ops::shift_right_arithmetic(x, y, bits),
        ops::Bits::ShiftRightLogical => ops::shift_right_logical(x, y, bits),
        ops::Bits::Popcount => ops::popcount(x, bits),
        ops::Bits::CountLeadingZeros => ops::count_leading_zeros(x, bits),
    }
}
