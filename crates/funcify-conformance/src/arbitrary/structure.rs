//! Adds ops that move, reduce or combine elements to a random program.

use funcify::ops::{ConvOptions, Pad, ReduceKind, ScatterMode};
use funcify::{DType, Dim, HostTensor, Shape, Value, apply, concat, constant, einsum, stack};

use super::program_builder::ProgramBuilder;

/// Adds an op that changes the shape, reorders the elements, or selects some of them.
pub(super) fn movement(builder: &mut ProgramBuilder<'_>) {
    let Some((x, axis, size)) = builder.float_with_axis() else { return };
    let (value, bound) = (x.value, x.bound);
    let rank = value.rank() as i64;
    let (name, value, bound): (&'static str, Value, f64) = match builder.choices.below(17) {
        0 => ("flatten", value.reshape(Shape::new([value.shape().elements()])), bound),
        1 => ("unsqueeze", value.unsqueeze(axis), bound),
        2 => ("transpose", value.transpose((0..rank as usize).rev().collect::<Vec<_>>()), bound),
        3 => ("move_axis", value.move_axis(axis, 0), bound),
        4 if size >= 1 => ("slice_front", value.slice(axis, 1..), bound),
        5 if size >= 1 => ("slice_end", value.slice(axis, ..-1), bound),
        6 if size >= 2 && value.dim(axis).constant().is_some() => ("slice_step", value.slice_step(axis, .., 2), bound),
        7 => ("reverse", value.reverse(axis), bound),
        8 => {
            let other = builder.float_of_shape(&value.shape());
            ("concat", concat(&[value, other.value], axis), bound.max(other.bound))
        }
        9 => ("concat_itself", concat(&[value, value * 0.5], axis), bound),
        10 => {
            let other = builder.float_of_shape(&value.shape());
            ("stack", stack(&[value, other.value, value], axis), bound.max(other.bound))
        }
        11 => ("pad", value.pad(axis, builder.choices.below(2), 1, 0.3), bound),
        12 if value.dim(axis).constant().is_some() => {
            let (low, high) = (Dim::from(1), Dim::from(builder.choices.below(2)));
            let fill = constant(0.2f64);
            let pad = Pad { axis: axis as usize, low, high, interior: 1 };
            ("pad_between", apply(pad, &[value, fill])[0], bound)
        }
        13 => {
            let lead = builder.choices.pick(&[Dim::from(2), Dim::from("N"), Dim::from(1)]);
            ("broadcast", value.broadcast_to(value.shape().with_leading(lead)), bound)
        }
        14 if size >= 1 => ("index", value.index(axis, builder.choices.pick(&[0, -1])), bound),
        15 if rank >= 2 => {
            let diagonal = builder.choices.pick(&[0, 1, -1]);
            ("triangle", if builder.choices.one_in(2) { value.tril(diagonal) } else { value.triu(diagonal) }, bound)
        }
        16 if rank >= 2 && value.dim(-1) == value.dim(-2) => ("diagonal", value.diagonal(), bound),
        _ => ("swap", value.t(), bound),
    };
    builder.count(name);
    builder.add(value, bound);
}

/// Adds an op that selects elements at constant or computed positions.
pub(super) fn indexing(builder: &mut ProgramBuilder<'_>) {
    let Some((x, axis, size)) = builder.float_with_axis() else { return };
    if size == 0 {
        return;
    }
    let (value, bound) = (x.value, x.bound);
    let shape = value.shape();
    let position = |builder: &mut ProgramBuilder<'_>| match builder.choices.below(2) {
        0 => constant(builder.choices.below(size + 1) as i64),
        _ => builder.integer(),
    };
    let (name, value, bound): (&'static str, Value, f64) = match builder.choices.below(9) {
        0 => {
            let positions: Vec<i64> =
                (0..2 + builder.choices.below(2)).map(|_| builder.choices.below(size) as i64).collect();
            let count = positions.len();
            let positions = HostTensor::from_vec(positions, [count]).unwrap_or_else(|| HostTensor::scalar(0i64));
            ("take", value.take(axis, constant(positions)), bound)
        }
        1 => {
            let positions = builder.pick(|ty| ty.dtype == DType::I64 && ty.rank() <= 1);
            let positions = positions.map_or_else(|| constant(0i64), |entry| entry.value);
            ("take_computed", value.take(axis, positions), bound)
        }
        2 => ("gather", value.gather(axis, builder.integers(&shape)), bound),
        3 => {
            let updates = builder.float_of_shape(&shape);
            let positions = builder.integers(&shape);
            let mode = builder.choices.pick(&[ScatterMode::Add, ScatterMode::Set]);
            ("scatter", value.scatter(axis, positions, updates.value, mode), 3.0 * bound + updates.bound)
        }
        4 => ("dynamic_index", value.dynamic_index(axis, position(builder)), bound),
        5 => ("dynamic_slice", value.dynamic_slice(axis, position(builder), size.min(2)), bound),
        6 => {
            let part = builder.float_of_shape(&shape.with_dim(axis as usize, 1));
            ("dynamic_update", value.dynamic_update(axis, part.value, position(builder)), bound.max(part.bound))
        }
        7 => {
            let along = builder.float_of_shape(&shape);
            let descending = builder.choices.one_in(2);
            ("argsort", value.take_along(axis, along.value.argsort(axis, descending)), bound)
        }
        _ => ("top_k", value.top_k(axis, size.min(2)).0, bound),
    };
    builder.count(name);
    builder.add(value, bound);
}

/// Adds a reduction or a cumulative op.
pub(super) fn reduction(builder: &mut ProgramBuilder<'_>) {
    let Some((x, axis, size)) = builder.float_with_axis() else {
        let x = builder.float();
        builder.count("sum_all");
        return builder.add(x.value.sum(..), 4.0 * x.bound);
    };
    let (value, bound) = (x.value, x.bound);
    let sum = size.max(1) as f64 * bound;
    let reverse = builder.choices.one_in(2);
    let (name, value, bound): (&'static str, Value, f64) = match builder.choices.below(14) {
        0 => ("sum", value.sum(axis), sum),
        1 if size > 0 => ("mean", value.mean(axis), bound),
        2 => ("prod", (value.sin() + 0.2).prod(axis), 2.0),
        3 if size > 0 => ("max_along", value.max(axis), bound),
        4 if size > 0 => ("min_along", value.min(axis), bound),
        5 => ("cumsum", value.cumsum(axis, reverse), sum),
        6 => ("cumprod", (value.sin() + 0.2).cumprod(axis, reverse), 2.0),
        7 => ("cummax", value.cummax(axis, reverse), bound),
        8 => ("cummin", value.cumulative(ReduceKind::Min, axis, reverse), bound),
        9 => ("sort", value.sort(axis, reverse).0, bound),
        10 if size > 0 => ("logsumexp", value.logsumexp(axis), bound + 2.0),
        11 if size > 0 => ("softmax", value.softmax(axis), 1.0),
        12 if size > 0 => ("log_softmax", value.log_softmax(axis), 2.0 * bound + 1.0),
        13 if size > 0 => ("std", (value.var(axis) + 0.4).sqrt(), bound + 1.0),
        _ => ("sum_all", value.sum(..), 2.0 * sum),
    };
    builder.count(name);
    builder.add(value, bound);
}

/// Adds a matrix product, an `einsum`, an outer product or a convolution.
pub(super) fn product(builder: &mut ProgramBuilder<'_>) {
    let Some(x) = builder.float_of_rank(1) else { return };
    let (left, bound) = (x.value, x.bound);
    let shape = left.shape();
    let rank = shape.rank();
    let last = shape[rank - 1].clone();
    let count = builder.size(&last).unwrap_or(3).max(1) as f64;
    let (name, value, bound): (&'static str, Value, f64) = match builder.choices.below(6) {
        0 => {
            let right = builder.float_of_shape(&Shape::new([last]));
            ("matmul_vector", left.matmul(right.value), bound * right.bound * count)
        }
        1 if rank >= 2 => {
            let right = builder.float_of_shape(&shape);
            ("matmul_transposed", left.matmul(right.value.t()), bound * right.bound * count)
        }
        2 => {
            let columns = builder.choices.pick(&[Dim::from(2), Dim::from("N"), Dim::from(1)]);
            let right = builder.float_of_shape(&Shape::new([last, columns]));
            ("matmul", left.matmul(right.value), bound * right.bound * count)
        }
        3 => {
            let columns = builder.choices.pick(&[Dim::from(2), Dim::from("N")]);
            let right = builder.float_of_shape(&Shape::new([last, columns]));
            let equation = ["i,ij->j", "ai,ij->ja", "abi,ij->jab"][rank.min(3) - 1];
            ("einsum", einsum(equation, &[left, right.value]), bound * right.bound * count)
        }
        4 => {
            let right = builder.float_of_shape(&Shape::new([last.clone()]));
            let outer = left.unsqueeze(-1) * right.value;
            ("outer", outer, bound * right.bound)
        }
        _ => {
            let signal = left.reshape(Shape::new([Dim::from(1), Dim::from(1), shape.elements()]));
            let kernel = builder.float_of_shape(&Shape::new([2]));
            let kernel_bound = kernel.bound;
            let kernel = kernel.value.reshape(Shape::new([1, 1, 2]));
            let padding = [(1, builder.choices.below(2) as i64)];
            let options = ConvOptions { padding, ..ConvOptions::default() };
            let result = signal.conv(kernel, options);
            ("conv", result.reshape(Shape::new([result.dim(-1)])), 2.0 * bound * kernel_bound)
        }
    };
    builder.count(name);
    builder.add(value, bound);
}
