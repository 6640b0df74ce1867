//! Shapes and tensor types, and their text form: `f32[T,B,64]`.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use super::{DType, Dim, SizeError, Sizes};

/// A list of dimensions, outermost first. Clones are cheap, because they share the list.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{Dim, Shape};
///
/// let shape = Shape::from([Dim::from("T"), Dim::from(3)]);
/// assert_eq!((shape.rank(), shape.elements().to_string().as_str()), (2, "3*T"));
/// assert_eq!(shape.with_leading("B").without(1).to_string(), "[B,3]");
/// assert_eq!((shape.constant(), Shape::new([2, 3]).constant()), (None, Some(vec![2, 3])));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(Arc<[Dim]>);

impl Shape {
    /// Creates a shape with the given dimensions.
    pub fn new(dims: impl IntoIterator<Item = impl Into<Dim>>) -> Self {
        Shape(dims.into_iter().map(Into::into).collect())
    }

    /// Returns the shape of a scalar.
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the dimensions.
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// Returns the number of elements: the product of all dimensions.
    pub fn elements(&self) -> Dim {
        self.0.iter().fold(Dim::from(1), |product, dim| product * dim)
    }

    /// Returns the concrete sizes of the axes, given the sizes of the symbols. Returns an error if a symbol is unbound,
    /// or if a size is negative or too large.
    pub fn value(&self, sizes: &Sizes) -> Result<Vec<usize>, SizeError> {
        let size = |dim: &Dim| {
            let value = dim.value(sizes)?;
            usize::try_from(value).map_err(|_| SizeError::Negative(dim.clone(), value))
        };
        self.0.iter().map(size).collect()
    }

    /// Returns the first dimension that can never be a valid size, because it is always negative or is beyond range.
    /// Returns `None` if there is no such dimension.
    #[doc(hidden)]
    pub fn first_unusable_dim(&self) -> Option<&Dim> {
        self.0.iter().find(|dim| dim.is_unusable())
    }

    /// Returns the concrete sizes of the axes, or `None` if a dimension contains a symbol, is negative, or is beyond
    /// range.
    pub fn constant(&self) -> Option<Vec<usize>> {
        self.value(&Sizes::new()).ok()
    }

    /// Returns the shape with each symbol that is bound in `sizes` replaced with its size.
    pub fn substitute(&self, sizes: &Sizes) -> Shape {
        Shape(self.0.iter().map(|dim| dim.substitute(sizes)).collect())
    }

    /// Returns the shape with `dim` inserted as the first dimension.
    pub fn with_leading(&self, dim: impl Into<Dim>) -> Shape {
        self.with_inserted(0, dim)
    }

    /// Returns the shape with `dim` inserted before axis `axis`.
    pub fn with_inserted(&self, axis: usize, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.to_vec();
        dims.insert(axis, dim.into());
        Shape(dims.into())
    }

    /// Returns the shape with the dimension of `axis` replaced by `dim`.
    pub fn with_dim(&self, axis: usize, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.to_vec();
        dims[axis] = dim.into();
        Shape(dims.into())
    }

    /// Returns the shape without the dimension of `axis`.
    pub fn without(&self, axis: usize) -> Shape {
        let mut dims = self.0.to_vec();
        dims.remove(axis);
        Shape(dims.into())
    }
}

impl Index<usize> for Shape {
    type Output = Dim;
    fn index(&self, axis: usize) -> &Dim {
        &self.0[axis]
    }
}

impl<D: Into<Dim>, const N: usize> From<[D; N]> for Shape {
    fn from(dims: [D; N]) -> Self {
        Shape::new(dims)
    }
}

impl From<Vec<Dim>> for Shape {
    fn from(dims: Vec<Dim>) -> Self {
        Shape(dims.into())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape::new(dims.iter().copied())
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(Dim::to_string).collect();
        write!(f, "[{}]", dims.join(","))
    }
}

/// The type of a value: its element type and its shape.
///
/// ```
/// # extern crate funcify_core as funcify;
/// use funcify::{DType, TensorType};
///
/// let ty = TensorType::new(DType::F32, ["T", "B"]);
/// assert_eq!(TensorType::parse("f32[T,B]"), Ok(ty.clone()));
/// assert_eq!(ty.row().map(|row| row.to_string()).as_deref(), Some("f32[B]"));
/// assert_eq!(ty.stacked(3).with_dtype(DType::I64).to_string(), "i64[3,T,B]");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Shape,
}

impl TensorType {
    /// Creates a type from an element type and a shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        TensorType { dtype, shape: shape.into() }
    }

    /// Returns the type of a scalar.
    pub fn scalar(dtype: DType) -> Self {
        TensorType { dtype, shape: Shape::scalar() }
    }

    /// Parses the text form of a type, such as `f32[T,B,64]`, `i64[]` or `f64[2*n+1]`. Whitespace is ignored. The error
    /// names the expected tokens and their location.
    pub fn parse(text: &str) -> Result<TensorType, String> {
        super::grammar::parse_type(text)
    }

    /// Returns the number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Returns the type of one row along axis 0, or `None` for a scalar.
    pub fn row(&self) -> Option<TensorType> {
        (self.rank() > 0).then(|| TensorType::new(self.dtype, self.shape.without(0)))
    }

    /// Returns the type of `n` values of this type, stacked along a new leading axis.
    pub fn stacked(&self, n: impl Into<Dim>) -> TensorType {
        TensorType::new(self.dtype, self.shape.with_leading(n))
    }

    /// Returns the type with the same shape and the element type `dtype`.
    pub fn with_dtype(&self, dtype: DType) -> TensorType {
        TensorType { dtype, shape: self.shape.clone() }
    }

    /// Returns the type with the same element type and the given shape.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> TensorType {
        TensorType { dtype: self.dtype, shape: shape.into() }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}
