//! The transposes of a convolution with respect to its operand and its kernel. Both are convolutions too.
//!
//! A convolution is linear in its operand and in its kernel. The transpose with respect to the operand exchanges
//! `strides` and `input_dilation`. The transpose with respect to the kernel exchanges `strides` and `dilation`, and
//! also exchanges the batch axis and the channel axis. Both follow JAX's `_conv_general_dilated_transpose_lhs` and
//! `_rhs`.

use super::Conv;
use crate::ops::rules::*;

impl Conv {
    /// Computes the cotangent of the operand from the cotangent of the result. `x` is the operand's shape.
    #[doc(hidden)]
    pub fn input_transpose(&self, x: &Shape, kernel: Value, cotangent: Value) -> Value {
        let window = kernel.shape();
        let mut op = Conv {
            strides: self.input_dilation.clone(),
            input_dilation: self.strides.clone(),
            low: Vec::new(),
            high: Vec::new(),
            ..self.clone()
        };
        for axis in 0..self.strides.len() {
            let reach = (window[axis + 2].clone() - 1) * self.dilation[axis];
            op.low.push(reach - &self.low[axis]);
            let spread =
                [(&x[axis + 2], self.input_dilation[axis]), (&cotangent.dim(axis as i64 + 2), self.strides[axis])]
                    .map(|(size, dilation)| expect_dilated_size(size, dilation));
            op.high.push(spread[0].clone() + &self.low[axis] - &spread[1]);
        }
        let mut flipped = swap_channels_in_groups(kernel, 0, &self.groups);
        for axis in 2..window.rank() {
            flipped = flipped.reverse(axis as i64);
        }
        op.of(cotangent, flipped)
    }

    /// Computes the cotangent of the kernel from the cotangent of the result. `kernel` is the kernel's shape.
    #[doc(hidden)]
    pub fn kernel_transpose(&self, kernel: &Shape, x: Value, cotangent: Value) -> Value {
        let mut op =
            Conv { strides: self.dilation.clone(), dilation: self.strides.clone(), high: Vec::new(), ..self.clone() };
        for axis in 0..self.strides.len() {
            let window = expect_dilated_size(&kernel[axis + 2], self.dilation[axis]);
            let reach = (cotangent.dim(axis as i64 + 2) - 1) * self.strides[axis];
            let size = expect_dilated_size(&x.dim(axis as i64 + 2), self.input_dilation[axis]);
            op.high.push(window + reach - size - &self.low[axis]);
        }
        let x = swap_channels_in_groups(x, 1, &self.groups);
        op.of(x, cotangent.move_axis(0, 1)).move_axis(0, 1)
    }
}

/// Returns the size of an axis after dilation by `step`. The type rule has already rejected every axis for which this
/// size cannot be computed.
fn expect_dilated_size(size: &Dim, step: usize) -> Dim {
    dilated_size(size, step).expect("the type rule rejects steps above 1 along axes of symbolic size")
}

/// Exchanges axes 0 and 1, separately for each group. `axis`, which is 0 or 1, consists of `groups` runs of equal
/// length. In the result, `axis` has the length of the other axis times `groups`, and the other axis has the length of
/// a run.
fn swap_channels_in_groups(value: Value, axis: usize, groups: &Dim) -> Value {
    let shape = value.shape();
    let run = shape[axis].divided_by(groups).expect("the type rule checks that the groups divide the channels");
    let merged = groups.clone() * &shape[1 - axis];
    let mut apart = shape.dims().to_vec();
    apart[axis] = run.clone();
    apart.insert(axis, groups.clone());
    let mut dims = shape.dims().to_vec();
    // The first three axes of `apart` are (groups, run, other) if `axis` is 0, and (other, groups, run) if `axis` is 1.
    let order = match axis {
        0 => [0, 2, 1],
        _ => [2, 1, 0],
    };
    (dims[axis], dims[1 - axis]) = (merged, run);
    value.reshape(apart).transpose(order.into_iter().chain(3..shape.rank() + 1).collect::<Vec<_>>()).reshape(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::ConvOptions;
    use crate::{DType, Graph, HostTensor, Scalar, TensorType};

    /// Returns pseudorandom integers that are small enough for exact sums of products.
    fn numbers(ty: &TensorType, seed: usize) -> HostTensor {
        let mut state = seed;
        HostTensor::from_fn(ty.dtype, &ty.shape.constant().unwrap(), |_| {
            state = (state * 1103515245 + 12345) % (1 << 31);
            Scalar::Float((state >> 16) as f64 % 17.0 - 8.0)
        })
    }

    /// Checks that the inner products `<g, conv(x, k)>`, `<input_transpose(g), x>` and `<kernel_transpose(g), k>` are
    /// equal for an operand `x`, a kernel `k` and a cotangent `g`.
    fn check<const D: usize>(options: ConvOptions<D>, x: [i64; 4], kernel: [i64; 4], symbolic: bool) {
        let shape = |dims: [i64; 4], name: &str| {
            let dim = |(axis, size): (usize, &i64)| match symbolic && axis >= 2 {
                true => Dim::from(format!("{name}{axis}").as_str()),
                false => Dim::from(*size),
            };
            Shape::from(dims[..D + 2].iter().enumerate().map(dim).collect::<Vec<_>>())
        };
        let op = Conv::from(options);
        let graph = Graph::build("transposes", |b| {
            let x = b.input("x", TensorType::new(DType::F64, shape(x, "x")));
            let k = b.input("k", TensorType::new(DType::F64, shape(kernel, "k")));
            let y = op.of(x, k);
            // The cotangent may be any tensor with the shape of the result.
            let g = (y * 0.5 + 3.0).square() % 11.0;
            let of_x = op.input_transpose(&x.shape(), k, g);
            let of_k = op.kernel_transpose(&k.shape(), x, g);
            (of_x, of_k, (y * g).sum(..), (of_x * x).sum(..), (of_k * k).sum(..))
        });
        let graph = graph.unwrap_or_else(|error| panic!("{options:?}: {error}"));
        let tensors = [(x, 3), (kernel, 8)]
            .map(|(dims, seed)| numbers(&TensorType::new(DType::F64, Shape::new(dims[..D + 2].to_vec())), seed));
        let results = crate::evaluate(&graph, &tensors).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert_eq!([results[0].ty(), results[1].ty()], [tensors[0].ty(), tensors[1].ty()], "{options:?}");
        let products: Vec<f64> = results[2..].iter().map(|result| result.get(0).as_f64()).collect();
        assert!(products.iter().all(|product| *product == products[0]), "{options:?}: {products:?}");
    }

    #[test]
    fn transposes_are_convolutions() {
        for (strides, dilation, input_dilation) in [(1, 1, 1), (2, 1, 1), (3, 2, 1), (1, 3, 2), (2, 1, 3), (3, 3, 2)] {
            for padding in [(0, 0), (2, 1), (5, 0), (-1, 3), (0, -2)] {
                for groups in [1, 2] {
                    let [strides, dilation, input_dilation] = [[strides], [dilation], [input_dilation]];
                    let options = ConvOptions { strides, padding: [padding], dilation, input_dilation, groups };
                    let channels = 4 / groups as i64;
                    check(options, [2, 4, 9, 0], [6, channels, 3, 0], false);
                    check(options, [2, 4, 10, 0], [6, channels, 2, 0], false);
                }
            }
        }
    }

    #[test]
    fn of_two_axes() {
        let strides = ConvOptions { strides: [2, 1], padding: [(1, 0), (2, -1)], ..ConvOptions::default() };
        let dilation = ConvOptions { dilation: [1, 2], input_dilation: [2, 1], groups: 3, ..ConvOptions::default() };
        check(strides, [2, 3, 5, 6], [4, 3, 2, 3], false);
        check(dilation, [2, 3, 4, 6], [6, 1, 3, 2], false);
    }

    #[test]
    fn of_sizes_that_are_symbols() {
        check(ConvOptions { padding: [(2, 1)], ..ConvOptions::default() }, [2, 3, 5, 0], [4, 3, 2, 0], true);
        check(ConvOptions { padding: [(0, 0), (1, 4)], ..ConvOptions::default() }, [2, 3, 5, 6], [4, 3, 2, 3], true);
    }
}
