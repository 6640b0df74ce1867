//! Defines traits that relate the tensor types of a loop to those of a step, whose tensors have one fewer axis.

use burn::tensor::Tensor;

use crate::plugin::{AnyTensor, TensorKind, Tensors};

/// The sequences of a loop: tensors with the steps along axis 0; tuples, arrays and `Vec`s of sequences; or `()`.
///
/// A step receives a row of each sequence, for example a `Tensor<2>` for a `Tensor<3>`. Burn has no scalars, so a row
/// of a `Tensor<1>` is a vector of one element.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Int, Tensor};
///
/// let device = Device::flex();
/// let (xs, counts) = (Tensor::<2>::ones([4, 3], &device), Tensor::<1, Int>::ones([4], &device));
/// // The rows of a pair are a pair of rows.
/// let sum = Tensor::<1>::zeros([3], &device);
/// let (sum, ()) = funcify_burn::scan((), sum, (xs, counts), |(), sum, (x, n)| (sum + x * n.float(), ()))?;
/// assert_eq!(sum.into_data().try_into_vec::<f32>().unwrap(), [4.0; 3]);
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Sequences {
    /// The rows that a step receives.
    type Row: Tensors;

    /// Appends the sequences to a list, as tensors of rank 2 or more.
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>);
}

/// The ys of a step: tensors; tuples, arrays and `Vec`s of ys; or `()`. The loop stacks each tensor along a new axis 0.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
///
/// let device = Device::flex();
/// let (sum, xs) = (Tensor::<1>::zeros([3], &device), Tensor::<2>::ones([4, 3], &device));
/// // The pair of each step becomes a pair of stacks.
/// let (_, (sums, squares)) = funcify_burn::scan((), sum, xs, |(), sum, x| {
///     let sum = sum + x;
///     (sum.clone(), (sum.clone(), sum.powi_scalar(2)))
/// })?;
/// assert_eq!((sums.dims(), squares.dims()), ([4, 3], [4, 3]));
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Stacked: Tensors {
    /// The stacked results of the loop, for example a `Tensor<3>` if a step returns a `Tensor<2>`.
    type Stack: Tensors;
}

macro_rules! ranks {
    ($($row:literal $stack:literal)*) => {$(
        impl<K: TensorKind> Sequences for Tensor<$stack, K> {
            type Row = Tensor<$row, K>;

            fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
                leaves.push(self.into());
            }
        }

        impl<K: TensorKind> Stacked for Tensor<$row, K> {
            type Stack = Tensor<$stack, K>;
        }
    )*};
}

ranks!(1 2  2 3  3 4  4 5  5 6  6 7  7 8  8 9  9 10  10 11  11 12);

impl<K: TensorKind> Sequences for Tensor<1, K> {
    type Row = Tensor<1, K>;

    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        leaves.push(self.unsqueeze_dim::<2>(1).into());
    }
}

impl Sequences for AnyTensor {
    type Row = AnyTensor;

    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        leaves.push(self);
    }
}

impl Stacked for AnyTensor {
    type Stack = AnyTensor;
}

impl<T: Sequences> Sequences for Vec<T> {
    type Row = Vec<T::Row>;

    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        self.into_iter().for_each(|sequences| sequences.into_leaves(leaves));
    }
}

impl<T: Stacked> Stacked for Vec<T> {
    type Stack = Vec<T::Stack>;
}

impl<T: Sequences, const N: usize> Sequences for [T; N] {
    type Row = [T::Row; N];

    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        self.into_iter().for_each(|sequences| sequences.into_leaves(leaves));
    }
}

impl<T: Stacked, const N: usize> Stacked for [T; N] {
    type Stack = [T::Stack; N];
}

impl Sequences for () {
    type Row = ();

    fn into_leaves(self, _: &mut Vec<AnyTensor>) {}
}

impl Stacked for () {
    type Stack = ();
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Sequences),+> Sequences for ($($name,)+) {
            type Row = ($($name::Row,)+);

            fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
                $(self.$index.into_leaves(leaves);)+
            }
        }

        impl<$($name: Stacked),+> Stacked for ($($name,)+) {
            type Stack = ($($name::Stack,)+);
        }
    )*};
}

funcify_core::for_tuples!(tuples);
