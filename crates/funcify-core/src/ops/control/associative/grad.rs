//! The derivatives of the associative scan.
//!
//! Forward mode extends `combine` to dual numbers. The extension is associative because `combine` is, so an associative
//! scan over dual numbers computes the tangents too, in logarithmic depth.
//!
//! For reverse mode, let g be the total cotangent of `y[t]`: its cotangent from outside the scan, plus the contribution
//! of the next element. The pullback of `combine(y[t-1], x[t])` maps g to the cotangents `(d y[t-1], d x[t])`. At the
//! first element of the scan, `d x[t] = g`. The backward pass runs in the opposite direction and reads the accumulated
//! elements of the forward pass. It handles all elements at once if `combine` permits this ([`parallel`]). Otherwise,
//! it runs a loop ([`sequential`]).

use super::*;

use crate::value::{iota, size};

pub(super) fn jvp(op: &AssociativeScan, operands: &[Dual]) -> Result<Vec<Dual>, Failed> {
    let (xs, captured) = operands.split_at(op.leaves);
    let has_tangent: Vec<bool> = operands.iter().map(|operand| operand.tangent.is_some()).collect();
    let guess = op.reached(ReachKind::Tangents, &has_tangent, &mut [Reach::of(&op.combine)]);
    let guess = Guess::new(has_tangent[..op.leaves].to_vec(), guess);
    let (active, closed) = guess.confirm(|active, found| {
        let mut params: Vec<(String, TensorType)> = Vec::new();
        for first in [0, op.leaves] {
            for (leaf, active) in active.iter().enumerate() {
                let (name, ty) = (op.combine.input_name(first + leaf), op.combine.input_type(first + leaf));
                params.push((name.to_string(), ty.clone()));
                if *active {
                    params.push((format!("tan_{name}"), ty.clone()));
                }
            }
        }
        trace_body("associative_scan", op.combine.name(), &params, |values| {
            let elements = Dual::pair(values.iter().copied(), &[active, active].concat());
            let results = push_forward(&op.combine, &[elements.as_slice(), captured].concat())?;
            Ok(Dual::name_outputs(&results, &op.combine, active, found))
        })
    })?;
    let mut operands: Vec<Value> = Vec::new();
    for (leaf, active) in xs.iter().zip(&active) {
        operands.push(leaf.primal);
        operands.extend(active.then(|| leaf.tangent_or_zeros()));
    }
    let leaves = operands.len();
    operands.extend(closed.captures);
    let op = AssociativeScan { combine: Arc::new(closed.graph), leaves, reverse: op.reverse };
    Ok(Dual::pair(emit(op, &operands)?, &active))
}

/// Returns the cotangents of the leaves and of the captured values.
pub(super) fn vjp(
    op: &AssociativeScan,
    context: &VjpContext<'_>,
    cotangents: &[Option<Value>],
) -> Result<Cotangents, Failed> {
    let (xs, captured) = context.operands.split_at(op.leaves);
    let count = xs[0].dim(0);
    if count.constant() == Some(0) {
        return Ok(cotangents.iter().copied().chain(captured.iter().map(|_| None)).collect());
    }
    let order = Order::of(op, &count);
    let given: Vec<bool> = cotangents.iter().map(Option::is_some).collect();
    let (_, reached) = op.leaves_pulled(&given, &mut op.cotangent_reach(context.wrt));
    if !context.vjp_options.stepwise
        && let Some(found) = parallel::vjp(op, context, cotangents, &order, &reached)?
    {
        return Ok(found);
    }
    sequential::vjp(op, context, cotangents, &order, reached)
}

/// The order in which the scan combines the elements, as tensors with one entry per row.
pub(super) struct Order {
    /// The row index of each element's predecessor in the order of the scan. The entry of the first element is its own
    /// index.
    pub(super) previous: Value,
    /// The row index of each element's successor in the order of the scan. The entry of the last element is its own
    /// index.
    pub(super) next: Value,
    /// A mask over the rows that is `true` only at the first element of the scan.
    pub(super) begins: Value,
}

impl Order {
    fn of(op: &AssociativeScan, count: &Dim) -> Order {
        let numbers = iota(count, DType::I64);
        let last = size(count.clone() - 1, DType::I64);
        let (below, above) = ((numbers - 1).maximum(0), (numbers + 1).minimum(last).maximum(0));
        match op.reverse {
            false => Order { previous: below, next: above, begins: numbers.eq(0) },
            true => Order { previous: above, next: below, begins: numbers.eq(last) },
        }
    }
}
