//! Plans matrix products and sums of matrix products, which are deferred until their consumer is known.

use super::*;
use crate::plan::MAX_FACTORS;

/// A deferred sum of matrix products: an initial value, plus the products of left operands and packed right operands.
/// The result is a matrix `[rows, lanes]`, reshaped to `shape`.
#[derive(Clone, Debug)]
pub(super) struct Products {
    shape: Vec<usize>,
    rows: usize,
    lanes: usize,
    init: Option<View>,
    factors: Vec<(View, View)>,
}

impl Products {
    /// Returns the views from which the sum is computed.
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        let factors = self.factors.iter().flat_map(|(left, right)| [left, right]);
        self.init.iter().chain(factors)
    }

    /// Returns the same sum of products, with its result reshaped to `shape`.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Products {
        Products { shape: shape.to_vec(), ..self.clone() }
    }
}

impl Scope<'_, '_> {
    /// Plans the sum of `left` and `right` if one of them is a deferred product, by fusing the other term into the
    /// product. The sum is deferred again, or becomes one instruction. Returns `None` if neither term is a product that
    /// can be fused.
    pub(super) fn sum(&mut self, left: ValueId, right: ValueId, value: ValueId) -> Result<Option<Value>> {
        for (waiting, other) in [(left, right), (right, left)] {
            if left == right || !self.is_used_once(waiting) {
                continue;
            }
            match self.values[waiting.index()].clone() {
                Some(Value::Products(mut products)) => {
                    if let (Some(Value::Products(more)), true) = (&self.values[other.index()], self.is_used_once(other))
                        && (products.init.is_none() || more.init.is_none())
                        && products.factors.len() + more.factors.len() <= MAX_FACTORS
                        && (products.rows, products.lanes) == (more.rows, more.lanes)
                    {
                        products.factors.extend(more.factors.clone());
                        products.init = products.init.or(more.init.clone());
                        self.planner.emitter.fired.note(Transformation::ProductsAdded);
                        return Ok(Some(Value::Products(products)));
                    }
                    if products.init.is_some() {
                        continue;
                    }
                    let init = self.without_reversed_axes(other)?;
                    let Some(init) = init.reshaped(&[products.rows, products.lanes]) else { continue };
                    let init = self.planner.emitter.in_lanes(&init)?;
                    products.init = Some(self.planner.emitter.within_units(&init)?);
                    self.planner.emitter.fired.note(Transformation::InitOfProduct);
                    return Ok(Some(Value::Products(products)));
                }
                Some(Value::Outer(x, y)) => {
                    let z = [self.tensor(other)?];
                    let sides = [x, y];
                    let own = self.own_state(value, &Operands { elementwise: &z, others: &sides });
                    if let Some(state) = own.filter(|state| z[0].is_same_view(state)) {
                        self.planner.emitter.fired.note(Transformation::SumInPlace);
                        self.planner.sink(state.clone(), sides, self.may_defer(value))?;
                        return Ok(Some(Value::Tensor(state)));
                    }
                }
                Some(Value::ElementProduct(x, y)) => {
                    let z = self.tensor(other)?;
                    self.planner.emitter.fired.note(Transformation::MulAdd);
                    let view = self.emit_elementwise(Op::Ternary(Ternary::MulAdd), &[x, y, z], value)?;
                    return Ok(Some(Value::Tensor(view)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Plans the difference of `left` and `right` as one instruction if one of them is a deferred elementwise product.
    /// Returns `None` if neither operand is such a product.
    pub(super) fn difference(&mut self, left: ValueId, right: ValueId, value: ValueId) -> Result<Option<View>> {
        for (waiting, other, op) in [(right, left, Ternary::NegMulAdd), (left, right, Ternary::MulSub)] {
            if let (Some(Value::ElementProduct(x, y)), true) =
                (&self.values[waiting.index()], self.is_used_once(waiting))
            {
                let (x, y) = (x.clone(), y.clone());
                let z = self.tensor(other)?;
                return Ok(Some(self.emit_elementwise(Op::Ternary(op), &[x, y, z], value)?));
            }
        }
        Ok(None)
    }

    /// Emits the deferred sum of products that computes `value`. Applies the function `then`, if any, to each element.
    pub(super) fn finish(&mut self, products: Products, then: Option<Unary>, value: ValueId) -> Result<View> {
        let Products { shape, rows, lanes, init, factors } = products;
        let levels = factors.iter().flat_map(|(left, right)| [left.level, right.level]);
        let level = levels.chain(init.iter().map(|init| init.level)).max().expect("products have a factor");
        let to = self.target(value, &shape, level);
        let matrix =
            to.reshaped(&[rows, lanes]).ok_or_else(|| Declined::new("matmul", "its result is not contiguous"))?;
        self.planner.emitter.product(&matrix, init.as_ref(), &factors, then)?;
        Ok(to)
    }

    /// Plans batched matrix products: one for each index of the leading axes.
    pub(super) fn matmul(&mut self, node: &Node, value: ValueId) -> Result<Value> {
        let [left, right] = [self.without_reversed_axes(node.inputs[0])?, self.without_reversed_axes(node.inputs[1])?];
        let shape = self.shape_of(value)?;
        let axes = shape.len() - 2;
        let level = level_of(&[left.clone(), right.clone()]);
        if left.is_empty() || right.is_empty() {
            let to = self.target(value, &shape, level);
            self.planner.emitter.fill(&to, 0.0)?;
            return Ok(Value::Tensor(to));
        }
        if self.planner.is_innermost && level > 1 && self.is_labelled(node) {
            let to = self.target(value, &shape, level);
            self.emit_as_folds(&to, &left, &right)?;
            return Ok(Value::Tensor(to));
        }
        if shape[..axes].iter().all(|size| *size == 1) {
            let matrix = |view: &View| (0..axes).fold(view.clone(), |view, _| view.at(0, 0));
            return self.matrices(&matrix(&left), &matrix(&right), &shape, value);
        }
        let to = self.target(value, &shape, level);
        // Compute a product with a vector as a fold, because a fold processes the whole batch at once.
        let [m, n, k] = [shape[axes], shape[axes + 1], left.shape[axes + 1]];
        if k == 1 || ((m == 1 || n == 1) && level > 0) {
            self.emit_as_folds(&to, &left, &right)?;
            return Ok(Value::Tensor(to));
        }
        match self.factors(&left, &right)? {
            Factors::Packed(left, right) => self.planner.emitter.product(&to, None, &[(left, right)], None)?,
            Factors::Transposed(left, right) => {
                let turned = self.planner.emitter.reserve(&[&shape[..axes], &[n, m]].concat(), level);
                self.planner.emitter.product(&turned, None, &[(left, right)], None)?;
                self.planner.emitter.copy(&to, &turned_matrices(&turned))?;
            }
            Factors::None => self.emit_as_folds(&to, &left, &right)?,
        }
        Ok(Value::Tensor(to))
    }

    /// Plans a single matrix product. `shape` is the shape of the result, which may have leading axes of size 1.
    fn matrices(&mut self, left: &View, right: &View, shape: &[usize], value: ValueId) -> Result<Value> {
        let [m, n, k] = [left.shape[0], right.shape[1], left.shape[1]];
        // If the left operand is stored as the transpose of a row-major matrix A, the product is AᵀB, where B is the
        // right operand.
        let emitter = &self.planner.emitter;
        if emitter.lies_within_units(left)
            && emitter.lies_within_units(right)
            && left.strides[0] == 1
            && (left.strides[1] != 1 || k == 1)
            && right.strides[1] == 1
            && m > 1
            && n > 1
            && shape.len() == 2
        {
            return Ok(Value::Outer(left.transposed(&[1, 0]), right.clone()));
        }
        let waiting =
            |rows, lanes, factor| Products { shape: shape.to_vec(), rows, lanes, init: None, factors: vec![factor] };
        match self.factors(left, right)? {
            Factors::Packed(left, right) => Ok(Value::Products(waiting(m, n, (left, right)))),
            Factors::Transposed(left, right) if n == 1 => Ok(Value::Products(waiting(1, m, (left, right)))),
            Factors::Transposed(left, right) => {
                let level = left.level.max(right.level);
                let turned = self.planner.emitter.reserve(&[n, m], level);
                self.planner.emitter.product(&turned, None, &[(left, right)], None)?;
                let strides = [&vec![0; shape.len() - 2], &turned.transposed(&[1, 0]).strides[..]].concat();
                Ok(Value::Tensor(turned.with_axes(shape.to_vec(), strides)))
            }
            Factors::None => {
                let to = self.target(value, shape, left.level.max(right.level));
                let matrix = (0..shape.len() - 2).fold(to.clone(), |view, _| view.at(0, 0));
                self.emit_as_folds(&matrix, left, right)?;
                Ok(Value::Tensor(to))
            }
        }
    }

    /// Returns the operands of matrix products, one of them packed: preferably the operand that is computed outside of
    /// the inner loop. Packs neither operand of a matrix-vector product if both are computed in the same loop, because
    /// packing would not pay off.
    fn factors(&mut self, left: &View, right: &View) -> Result<Factors> {
        let axes = left.shape.len() - 2;
        let [m, n, k] = [left.shape[axes], right.shape[axes + 1], left.shape[axes + 1]];
        let emitter = &mut self.planner.emitter;
        let is_vector = m == 1 || n == 1;
        if k == 1 || (is_vector && left.level == right.level && left.level > 0) {
            return Ok(Factors::None);
        }
        let [lefts, rights] = [left, right].map(turned_matrices);
        if m > 1 && (n == 1 || left.level < right.level) {
            return Ok(Factors::Transposed(emitter.in_rows(&rights)?, emitter.pack(&lefts)?));
        }
        Ok(Factors::Packed(emitter.in_rows(left)?, emitter.pack(right)?))
    }

    /// Returns `true` if an operand or the result of a product contains the parallel axis.
    fn is_labelled(&self, node: &Node) -> bool {
        let values = node.inputs.iter().chain(&node.outputs);
        let labels = &self.planner.labels;
        values.into_iter().any(|value| matches!(labels.of(self.graph, *value), Label::Axis(_)))
    }

    /// Emits batched matrix products as sums of elementwise products.
    fn emit_as_folds(&mut self, to: &View, left: &View, right: &View) -> Result<()> {
        let axes = to.shape.len() - 2;
        let k = left.shape[axes + 1];
        let shape = [to.shape.as_slice(), &[k]].concat();
        let with_axes =
            |view: &View, last: [isize; 3]| view.with_axes(shape.clone(), [&view.strides[..axes], &last].concat());
        let lefts = with_axes(left, [left.strides[axes], 0, left.strides[axes + 1]]);
        let rights = with_axes(right, [0, right.strides[axes + 1], right.strides[axes]]);
        // The first operand of a fold must be contiguous along the axis of the lanes. The lanes extend along an axis
        // that is contiguous in the destination or, if there is none, along the summed axis.
        let last = shape.len() - 1;
        let lanes = (0..last).find(|axis| to.strides[*axis] == 1 && shape[*axis] > 1).unwrap_or(last);
        let runs = |view: &View| [view.strides[lanes] == 1, view.strides[last] == 1];
        let from = if runs(&lefts) > runs(&rights) { [&lefts, &rights] } else { [&rights, &lefts] };
        self.planner.emitter.fold(Fold::Sum, to, &from, &[last])
    }
}

/// The operands of a matrix product, one of them packed if that is worthwhile.
enum Factors {
    /// The left operand, and the packed right operand.
    Packed(View, View),
    /// The transposed right operand, and the packed transpose of the left operand. Their product is the transpose of
    /// the result.
    Transposed(View, View),
    /// No operand is packed.
    None,
}

/// Returns the transposes of matrices `[.., m, n]`.
fn turned_matrices(view: &View) -> View {
    let last = view.shape.len() - 1;
    let axes: Vec<usize> = (0..last - 1).chain([last, last - 1]).collect();
    view.transposed(&axes)
}
