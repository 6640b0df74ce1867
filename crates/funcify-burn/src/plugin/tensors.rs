//! Defines structures of Burn tensors, used as the arguments and results of functions.

use std::fmt::Display;
use std::vec::IntoIter;

use burn::nn::LstmState;
use burn::tensor::Tensor;
use funcify_core::error::{Error, Place, Result};

use super::any::{AnyTensor, TensorKind};
use super::misfit;

/// A structure of Burn tensors that may differ in rank and kind: a tensor, an [`AnyTensor`], Burn's `LstmState` (the
/// hidden state, then the cell state), or a tuple, array or `Vec` of structures.
///
/// In a structure of results, a `Vec` takes all remaining tensors, so it must come last.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use funcify::Graph;
/// use funcify_burn::{AnyTensor, Differentiable};
///
/// let sizes = Graph::build("parts", |g| {
///     let x = g.input("x", "f32[2,3]");
///     (x, x.sum(0), x.sum(1))
/// })?;
/// let x = Tensor::<2>::ones([2, 3], &Device::flex());
/// let (_x, sums): (Tensor<2>, Vec<AnyTensor>) = Differentiable::new(&sizes).call(x)?;
/// assert_eq!((sums[0].shape(), sums[1].shape()), (vec![3], vec![2]));
/// # }
/// # Ok::<(), funcify::Error>(())
/// ```
pub trait Tensors: Sized {
    /// Appends the tensors of the structure to a list, in order.
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>);

    /// Builds the structure from the next tensors of a list.
    ///
    /// # Errors
    /// Returns [`Error::Call`] if no tensor is left, or if a tensor has the wrong rank or kind.
    fn from_leaves(leaves: &mut Leaves) -> Result<Self>;
}

/// A list of tensors from which a structure is built, one tensor at a time.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::Tensor;
/// use funcify_burn::{AnyTensor, Leaves, Tensors};
///
/// /// A structure of your own.
/// struct State {
///     fast: Tensor<1>,
///     slow: Tensor<2>,
/// }
///
/// impl Tensors for State {
///     fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
///         (self.fast, self.slow).into_leaves(leaves);
///     }
///
///     fn from_leaves(leaves: &mut Leaves) -> funcify::Result<Self> {
///         let (fast, slow) = (leaves.take("a vector")?.into_tensor()?, Tensors::from_leaves(leaves)?);
///         Ok(State { fast, slow })
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Leaves {
    at: Place,
    /// The role of the tensors in error messages, for example `result`.
    what: &'static str,
    count: usize,
    tensors: IntoIter<AnyTensor>,
}

impl Leaves {
    /// Takes the next tensor. `expected` describes this tensor in the error message.
    ///
    /// # Errors
    /// Returns [`Error::Call`] if no tensor is left.
    pub fn take(&mut self, expected: impl Display) -> Result<AnyTensor> {
        let missing = || format!("{} tensors", self.count);
        self.tensors.next().ok_or_else(|| self.misfit(self.count, expected.to_string(), missing()))
    }

    fn misfit(&self, index: usize, expected: String, found: String) -> Error {
        let fix = "use a structure with the program's ranks and kinds; `AnyTensor` accepts any";
        misfit(&self.at, format!("{} {index}", self.what), expected, found, fix)
    }

    fn left(&self) -> usize {
        self.tensors.len()
    }
}

/// Returns all tensors of a structure, in order.
pub(crate) fn leaves_of(tensors: impl Tensors) -> Vec<AnyTensor> {
    let mut leaves = Vec::new();
    tensors.into_leaves(&mut leaves);
    leaves
}

/// Builds a structure from these tensors. Returns an error if the tensors do not fit the structure, or if some are left
/// over.
pub(crate) fn structure<T: Tensors>(at: &Place, what: &'static str, tensors: Vec<AnyTensor>) -> Result<T> {
    let count = tensors.len();
    let mut leaves = Leaves { at: at.clone(), what, count, tensors: tensors.into_iter() };
    let structure = T::from_leaves(&mut leaves)?;
    match leaves.left() {
        0 => Ok(structure),
        left => Err(leaves.misfit(count - left, format!("{} tensors", count - left), format!("{count} tensors"))),
    }
}

impl Tensors for AnyTensor {
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        leaves.push(self);
    }

    fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
        leaves.take("a tensor")
    }
}

impl<const D: usize, K: TensorKind> Tensors for Tensor<D, K> {
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        leaves.push(self.into());
    }

    fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
        let index = leaves.count - leaves.left();
        let tensor = leaves.take(format_args!("a Tensor<{D}, {}>", K::NAME))?;
        if tensor.is::<D, K>() {
            return tensor.into_tensor();
        }
        Err(leaves.misfit(index, format!("a Tensor<{D}, {}>", K::NAME), tensor.describe()))
    }
}

impl<const D: usize> Tensors for LstmState<D> {
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        (self.hidden, self.cell).into_leaves(leaves);
    }

    fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
        let (hidden, cell) = Tensors::from_leaves(leaves)?;
        Ok(LstmState::new(cell, hidden))
    }
}

impl Tensors for () {
    fn into_leaves(self, _: &mut Vec<AnyTensor>) {}

    fn from_leaves(_: &mut Leaves) -> Result<Self> {
        Ok(())
    }
}

impl<T: Tensors> Tensors for Vec<T> {
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        self.into_iter().for_each(|tensors| tensors.into_leaves(leaves));
    }

    fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
        let mut list = Vec::new();
        while leaves.left() > 0 {
            let left = leaves.left();
            list.push(T::from_leaves(leaves)?);
            if leaves.left() == left {
                break;
            }
        }
        Ok(list)
    }
}

impl<T: Tensors, const N: usize> Tensors for [T; N] {
    fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
        self.into_iter().for_each(|tensors| tensors.into_leaves(leaves));
    }

    fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
        let list = (0..N).map(|_| T::from_leaves(leaves)).collect::<Result<Vec<T>>>()?;
        let (index, found) = (leaves.count - leaves.left(), format!("{} parts", list.len()));
        list.try_into().map_err(|_| leaves.misfit(index, format!("{N} parts"), found))
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => {$(
        impl<$($name: Tensors),+> Tensors for ($($name,)+) {
            fn into_leaves(self, leaves: &mut Vec<AnyTensor>) {
                $(self.$index.into_leaves(leaves);)+
            }

            fn from_leaves(leaves: &mut Leaves) -> Result<Self> {
                Ok(($($name::from_leaves(leaves)?,)+))
            }
        }
    )*};
}

funcify_core::for_tuples!(tuples);
