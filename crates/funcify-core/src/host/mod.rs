//! Tensors in host memory: constants, the inputs and outputs of backends, and the values of the reference evaluator.

mod elements;

use std::fmt;

use half::{bf16, f16};

pub(crate) use elements::print_elements;

use crate::types::{DType, Shape, TensorType, nearest_bf16, nearest_f16, round_integer_to_odd};

/// A single element, widened for computation: integers to `i64`, and floats to `f64`.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::Scalar;
///
/// assert_eq!((Scalar::Float(2.7).as_i64(), Scalar::Bool(true).as_f64()), (2, 1.0));
/// assert!(Scalar::Int(-1).as_bool());
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An element of an integer type.
    Int(i64),
    /// An element of a float type.
    Float(f64),
}

impl Scalar {
    /// Converts the scalar to a float. `true` becomes 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Int(value) => value as f64,
            Scalar::Float(value) => value,
        }
    }

    /// Converts the scalar to an integer. Floats are truncated toward zero and saturate, NaN becomes 0, and `true`
    /// becomes 1.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(value) => i64::from(value),
            Scalar::Int(value) => value,
            Scalar::Float(value) => value as i64,
        }
    }

    /// Converts the scalar to an element of `dtype`, by the same rule as [`Cast`](crate::ops::Cast).
    pub(crate) fn cast(self, dtype: DType) -> Scalar {
        let saturated = |x: f64| match dtype {
            DType::U8 => i64::from(x as u8),
            DType::U32 => i64::from(x as u32),
            DType::I32 => i64::from(x as i32),
            _ => x as i64,
        };
        match (self, dtype) {
            (_, DType::Bool) => Scalar::Bool(self.as_bool()),
            (Scalar::Float(x), _) if dtype.is_int() => Scalar::Int(saturated(x)),
            (_, _) if dtype.is_int() => Scalar::Int(self.as_i64()),
            // Converting through f64 would round twice.
            (Scalar::Int(x), DType::F32) => Scalar::Float(f64::from(x as f32)),
            (Scalar::Int(x), DType::F16 | DType::BF16) => Scalar::Float(round_integer_to_odd(x)),
            _ => Scalar::Float(self.as_f64()),
        }
    }

    /// Returns `true` if the scalar is nonzero. NaN counts as nonzero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(value) => value,
            Scalar::Int(value) => value != 0,
            Scalar::Float(value) => value != 0.0,
        }
    }
}

/// A Rust type that can be the element type of a tensor.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, Element};
///
/// assert_eq!(f32::DTYPE, DType::F32);
/// assert_eq!(f32::from_storage(&f32::into_storage(vec![1.0, 2.0])), Some([1.0, 2.0].as_slice()));
/// ```
pub trait Element: Copy + 'static {
    /// The [`DType`] that represents this Rust type.
    const DTYPE: DType;
    /// Wraps elements in a [`Storage`].
    fn into_storage(elements: Vec<Self>) -> Storage;
    /// Returns the elements, or `None` if they are not of this type.
    fn from_storage(storage: &Storage) -> Option<&[Self]>;
}

macro_rules! storage {
    ($($variant:ident, $element:ty, $dtype:ident, |$from:ident| $read:expr, |$to:ident| $write:expr;)*) => {
        /// The elements of a tensor, in row-major order.
        ///
        /// ```
        /// # extern crate funcify_core as funcify;
        /// use funcify::{DType, Scalar, Storage};
        ///
        /// let storage = Storage::from_scalars(DType::U8, [Scalar::Int(1), Scalar::Int(257)]);
        /// assert_eq!(storage, Storage::U8(vec![1, 1]));
        /// assert_eq!(Storage::from_le_bytes(DType::U8, &storage.to_le_bytes()), storage);
        /// assert_eq!((storage.dtype(), storage.len(), storage.get(0)), (DType::U8, 2, Scalar::Int(1)));
        /// ```
        #[derive(Clone, PartialEq, Debug)]
        pub enum Storage {
            $(#[doc = concat!("Elements of type `", stringify!($element), "`.")] $variant(Vec<$element>),)*
        }

        impl Storage {
            /// Returns the element type.
            pub fn dtype(&self) -> DType {
                match self { $(Storage::$variant(_) => DType::$dtype,)* }
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                match self { $(Storage::$variant(elements) => elements.len(),)* }
            }

            /// Returns `true` if the storage has no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the element at a flat index.
            pub fn get(&self, index: usize) -> Scalar {
                match self { $(Storage::$variant(elements) => { let $from = elements[index]; $read })* }
            }

            /// Converts scalars to elements of `dtype`. Integers wrap around, and floats round to nearest even.
            pub fn from_scalars(dtype: DType, scalars: impl IntoIterator<Item = Scalar>) -> Self {
                match dtype {
                    $(DType::$dtype => Storage::$variant(scalars.into_iter().map(|$to| $write).collect()),)*
                }
            }

            /// Returns the elements as little-endian bytes.
            pub fn to_le_bytes(&self) -> Vec<u8> {
                match self {
                    $(Storage::$variant(elements) => elements.iter().flat_map(|e| Bytes::to_le(*e)).collect(),)*
                }
            }

            /// Reads elements of `dtype` from little-endian bytes. An incomplete last element is dropped.
            pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Self {
                match dtype {
                    $(DType::$dtype => Storage::$variant(
                        bytes.chunks_exact(dtype.size()).map(<$element as Bytes>::from_le).collect(),
                    ),)*
                }
            }
        }

        $(impl Element for $element {
            const DTYPE: DType = DType::$dtype;
            fn into_storage(elements: Vec<Self>) -> Storage {
                Storage::$variant(elements)
            }
            fn from_storage(storage: &Storage) -> Option<&[Self]> {
                match storage { Storage::$variant(elements) => Some(elements), _ => None }
            }
        })*
    };
}

storage! {
    Bool, bool, Bool, |e| Scalar::Bool(e), |s| s.as_bool();
    U8, u8, U8, |e| Scalar::Int(i64::from(e)), |s| s.as_i64() as u8;
    U32, u32, U32, |e| Scalar::Int(i64::from(e)), |s| s.as_i64() as u32;
    I32, i32, I32, |e| Scalar::Int(i64::from(e)), |s| s.as_i64() as i32;
    I64, i64, I64, |e| Scalar::Int(e), |s| s.as_i64();
    F16, f16, F16, |e| Scalar::Float(e.to_f64()), |s| nearest_f16(s.as_f64());
    BF16, bf16, BF16, |e| Scalar::Float(e.to_f64()), |s| nearest_bf16(s.as_f64());
    F32, f32, F32, |e| Scalar::Float(f64::from(e)), |s| s.as_f64() as f32;
    F64, f64, F64, |e| Scalar::Float(e), |s| s.as_f64();
}

/// An element type that can be converted to and from little-endian bytes.
trait Bytes: Copy {
    fn to_le(self) -> Vec<u8>;
    fn from_le(bytes: &[u8]) -> Self;
}

macro_rules! bytes {
    ($($element:ty),*) => {$(
        impl Bytes for $element {
            fn to_le(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_le(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$element>()];
                array.copy_from_slice(bytes);
                <$element>::from_le_bytes(array)
            }
        }
    )*};
}

bytes!(u8, u32, i32, i64, f16, bf16, f32, f64);

impl Bytes for bool {
    fn to_le(self) -> Vec<u8> {
        vec![u8::from(self)]
    }
    fn from_le(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

/// A dense, row-major tensor in host memory.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{HostTensor, Scalar};
///
/// let x = HostTensor::from([[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!((x.ty().to_string().as_str(), x.shape(), x.len()), ("f32[2,3]", [2, 3].as_slice(), 6));
/// assert_eq!((x.at(&[1, 0]), x.get(3)), (Scalar::Float(4.0), Scalar::Float(4.0)));
/// assert_eq!(x.row(1).to_f64_vec(), [4.0, 5.0, 6.0]);
/// assert_eq!(x.reshaped([6]).unwrap().as_slice::<f32>().unwrap()[5], 6.0);
/// ```
#[derive(Clone, PartialEq)]
pub struct HostTensor {
    shape: Vec<usize>,
    storage: Storage,
}

impl HostTensor {
    /// Creates a tensor from its elements. Returns `None` if the number of elements does not match the shape, or if the
    /// product of the nonzero sizes exceeds the address space.
    pub fn new(shape: impl Into<Vec<usize>>, storage: Storage) -> Option<Self> {
        let shape = shape.into();
        (element_count(&shape) == Some(storage.len())).then_some(HostTensor { shape, storage })
    }

    /// Creates a tensor from a vector of elements in row-major order. Returns `None` if their number does not match the
    /// shape.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::HostTensor;
    /// let x = HostTensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], [2, 3]).unwrap();
    /// assert_eq!(x.shape(), [2, 3]);
    /// assert!(HostTensor::from_vec(vec![1f32], [2, 3]).is_none());
    /// ```
    pub fn from_vec<E: Element>(elements: Vec<E>, shape: impl Into<Vec<usize>>) -> Option<Self> {
        HostTensor::new(shape, E::into_storage(elements))
    }

    /// Creates a tensor of rank 0.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::HostTensor;
    ///
    /// assert_eq!(HostTensor::scalar(2f32).shape(), [0; 0]);
    /// assert_eq!(HostTensor::scalar(2f32), 2f32.into());
    /// ```
    pub fn scalar<E: Element>(element: E) -> Self {
        HostTensor { shape: Vec::new(), storage: E::into_storage(vec![element]) }
    }

    /// Creates a tensor by calling `f` with each multi-index. Converts the results of `f` to `dtype`: integers wrap
    /// around, and floats are rounded.
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, HostTensor, Scalar};
    ///
    /// let sums = HostTensor::from_fn(DType::I64, &[2, 2], |index| Scalar::Int((index[0] + index[1]) as i64));
    /// assert_eq!(sums, [[0i64, 1], [1, 2]].into());
    /// ```
    pub fn from_fn(dtype: DType, shape: &[usize], mut f: impl FnMut(&[usize]) -> Scalar) -> Self {
        let mut elements = Vec::with_capacity(element_count(shape).unwrap_or(0));
        for_each_index(shape, |index| elements.push(f(index)));
        HostTensor { shape: shape.to_vec(), storage: Storage::from_scalars(dtype, elements) }
    }

    /// Creates a tensor of zeros (`false` for booleans).
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, HostTensor};
    ///
    /// assert_eq!(HostTensor::zeros(DType::F32, &[2]), [0f32, 0.0].into());
    /// ```
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        HostTensor::from_fn(dtype, shape, |_| Scalar::Int(0))
    }

    /// Returns the shape: the size of each axis, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Returns the type of the tensor: its element type and its shape.
    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype(), Shape::from(self.shape.as_slice()))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.storage.len()
    }

    /// Returns `true` if the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.storage.is_empty()
    }

    /// Returns the elements.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns the elements as a slice, or `None` if they are not of type `E`.
    pub fn as_slice<E: Element>(&self) -> Option<&[E]> {
        E::from_storage(&self.storage)
    }

    /// Returns the element at a flat, row-major index.
    pub fn get(&self, index: usize) -> Scalar {
        self.storage.get(index)
    }

    /// Returns the element at a multi-index.
    pub fn at(&self, index: &[usize]) -> Scalar {
        self.storage.get(self.flat(index))
    }

    /// Iterates over all elements in row-major order.
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the elements in row-major order, converted to `f64`.
    pub fn to_f64_vec(&self) -> Vec<f64> {
        self.scalars().map(Scalar::as_f64).collect()
    }

    /// Returns the tensor with a new shape. The elements and their row-major order stay the same. Returns `None` if the
    /// number of elements does not match the shape.
    pub fn reshaped(self, shape: impl Into<Vec<usize>>) -> Option<Self> {
        HostTensor::new(shape, self.storage)
    }

    /// Converts the elements to `dtype`, by the same rule as [`Cast`](crate::ops::Cast).
    ///
    /// ```
    /// # extern crate funcify_core as funcify;
    /// use funcify::{DType, HostTensor};
    ///
    /// assert_eq!(HostTensor::from([1.7f32, -300.0]).cast(DType::U8), [1u8, 0].into());
    /// ```
    pub fn cast(&self, dtype: DType) -> Self {
        let scalars = self.scalars().map(|scalar| scalar.cast(dtype));
        HostTensor { shape: self.shape.clone(), storage: Storage::from_scalars(dtype, scalars) }
    }

    /// Returns row `row` along axis 0.
    ///
    /// # Panics
    /// Panics if the tensor is a scalar or `row` is out of bounds.
    pub fn row(&self, row: usize) -> HostTensor {
        let shape = &self.shape[1..];
        let size: usize = shape.iter().product();
        assert!(row < self.shape[0], "row {row} is out of range for a tensor with {} rows", self.shape[0]);
        let scalars = (row * size..(row + 1) * size).map(|index| self.get(index));
        HostTensor { shape: shape.to_vec(), storage: Storage::from_scalars(self.dtype(), scalars) }
    }

    /// Returns the flat index of a multi-index.
    fn flat(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.shape).fold(0, |flat, (i, size)| flat * size + i)
    }
}

impl<E: Element> From<E> for HostTensor {
    fn from(element: E) -> Self {
        HostTensor::scalar(element)
    }
}

impl<E: Element, const A: usize> From<[E; A]> for HostTensor {
    fn from(elements: [E; A]) -> Self {
        HostTensor { shape: vec![A], storage: E::into_storage(elements.to_vec()) }
    }
}

impl<E: Element, const A: usize, const B: usize> From<[[E; B]; A]> for HostTensor {
    fn from(rows: [[E; B]; A]) -> Self {
        HostTensor { shape: vec![A, B], storage: E::into_storage(rows.as_flattened().to_vec()) }
    }
}

impl<E: Element, const A: usize, const B: usize, const C: usize> From<[[[E; C]; B]; A]> for HostTensor {
    fn from(blocks: [[[E; C]; B]; A]) -> Self {
        let elements = blocks.as_flattened().as_flattened().to_vec();
        HostTensor { shape: vec![A, B, C], storage: E::into_storage(elements) }
    }
}

impl fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.ty())?;
        f.write_str(&print_elements(self))
    }
}

/// Returns the number of elements of a shape, or `None` if the number or a stride exceeds the address space.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::element_count;
///
/// assert_eq!((element_count(&[2, 3]), element_count(&[usize::MAX, 2])), (Some(6), None));
/// ```
pub fn element_count(shape: &[usize]) -> Option<usize> {
    let product = shape.iter().try_fold(1usize, |product, size| product.checked_mul((*size).max(1)))?;
    isize::try_from(product).ok()?;
    Some(if shape.contains(&0) { 0 } else { product })
}

/// Calls `f` with every multi-index of `shape`, in row-major order.
pub(crate) fn for_each_index(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    loop {
        f(&index);
        let Some(axis) = (0..shape.len()).rev().find(|&axis| index[axis] + 1 < shape[axis]) else {
            return;
        };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_wrap_and_round_into_storage() {
        let wrapped = Storage::from_scalars(DType::U8, [Scalar::Int(300), Scalar::Int(-1)]);
        assert_eq!(wrapped, Storage::U8(vec![44, 255]));
        let rounded = Storage::from_scalars(DType::F32, [Scalar::Float(0.1)]);
        assert_eq!(rounded.get(0), Scalar::Float(f64::from(0.1f32)));
    }

    /// Checks the rounding of midpoints between neighbouring 16-bit floats, and of numbers one f64 ULP away from them.
    #[test]
    fn narrow_floats_are_rounded_once() {
        for (dtype, digits) in [(DType::F16, 11), (DType::BF16, 8)] {
            let cast = |number: f64| Storage::from_scalars(dtype, [Scalar::Float(number)]).get(0).as_f64();
            let unit = 2f64.powi(1 - digits);
            let middle = 1.0 + unit / 2.0;
            let rows =
                [(middle, 1.0), (middle.next_up(), 1.0 + unit), (middle.next_down(), 1.0), (1.0 + unit, 1.0 + unit)];
            for (number, expected) in rows {
                assert_eq!((cast(number), cast(-number)), (expected, -expected), "{dtype} {number}");
            }
            let (above, odd) = (1.0 + 1.5 * unit, 1.0 + unit);
            assert_eq!((cast(above), cast(above.next_down())), (1.0 + 2.0 * unit, odd), "{dtype}");
            assert_eq!((cast(1e300), cast(-1e-300), cast(f64::INFINITY)), (f64::INFINITY, 0.0, f64::INFINITY));
            assert!(cast(f64::NAN).is_nan() && cast(-0.0).is_sign_negative());
        }
        let smallest = 2f64.powi(-24);
        let cast = |number: f64| Storage::from_scalars(DType::F16, [Scalar::Float(number)]).get(0).as_f64();
        assert_eq!((cast(smallest / 2.0), cast((smallest / 2.0).next_up())), (0.0, smallest));
        assert_eq!((cast(65520f64.next_down()), cast(65520.0)), (65504.0, f64::INFINITY));
    }

    #[test]
    fn every_index_once_and_none_of_an_empty_shape() {
        let mut seen = Vec::new();
        for_each_index(&[2, 2], |index| seen.push(index.to_vec()));
        assert_eq!(seen, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        let mut count = 0;
        for_each_index(&[], |_| count += 1);
        for_each_index(&[2, 0], |_| count += 10);
        assert_eq!(count, 1);
    }

    #[test]
    fn bytes_round_trip_in_every_dtype() {
        for dtype in DType::ALL {
            let storage = Storage::from_scalars(dtype, [Scalar::Int(1), Scalar::Int(0)]);
            assert_eq!(Storage::from_le_bytes(dtype, &storage.to_le_bytes()), storage);
        }
    }

    #[test]
    fn arrays_are_tensors_of_their_shape() {
        assert_eq!(HostTensor::from([[1i64, 2], [3, 4], [5, 6]]).row(2), HostTensor::from([5i64, 6]));
        assert_eq!(HostTensor::from([[[1f32]; 3]; 2]).shape(), [2, 3, 1]);
        assert_eq!(HostTensor::from([0f64; 0]).shape(), [0]);
    }

    #[test]
    fn rows_are_slices_of_axis_zero() {
        let x = HostTensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], [3, 2]).unwrap();
        assert_eq!(x.row(1), HostTensor::from_vec(vec![3i64, 4], [2]).unwrap());
    }
}
