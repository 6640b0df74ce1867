//! The tensor type of the toy backend.

use std::sync::Arc;

use funcify::error::BackendError;

/// A tensor of f64 elements in row-major order. Clones share the elements.
#[derive(Clone, PartialEq, Debug)]
pub struct ToyTensor {
    shape: Vec<usize>,
    elements: Arc<Vec<f64>>,
}

impl ToyTensor {
    /// Creates a tensor from its elements in row-major order. Returns an error if their number does not match the
    /// shape.
    pub fn new(shape: &[usize], elements: Vec<f64>) -> Result<Self, BackendError> {
        if shape.iter().product::<usize>() != elements.len() {
            return Err(format!("{} elements do not fill the shape {shape:?}", elements.len()).into());
        }
        Ok(ToyTensor { shape: shape.to_vec(), elements: Arc::new(elements) })
    }

    /// Returns the size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the elements in row-major order.
    pub fn elements(&self) -> &[f64] {
        &self.elements
    }

    /// Applies a function to each element.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Result<Self, BackendError> {
        ToyTensor::new(&self.shape, self.elements.iter().map(|element| function(*element)).collect())
    }

    /// Combines the corresponding elements of two tensors of the same shape.
    pub fn zip(&self, other: &ToyTensor, function: impl Fn(f64, f64) -> f64) -> Result<Self, BackendError> {
        if self.shape != other.shape {
            return Err(format!("the shapes {:?} and {:?} differ", self.shape, other.shape).into());
        }
        let pairs = self.elements.iter().zip(other.elements.iter());
        ToyTensor::new(&self.shape, pairs.map(|(left, right)| function(*left, *right)).collect())
    }

    /// Returns the rows `start..start + count` along axis 0.
    pub fn rows(&self, start: usize, count: usize) -> Result<Self, BackendError> {
        let (rows, row_shape) = self.shape.split_first().ok_or("a scalar has no rows")?;
        if start + count > *rows {
            return Err(format!("there are {rows} rows, not {}", start + count).into());
        }
        let row: usize = row_shape.iter().product();
        let elements = self.elements[start * row..(start + count) * row].to_vec();
        ToyTensor::new(&[&[count], row_shape].concat(), elements)
    }

    /// Broadcasts the tensor to `shape`, aligning the last axes. Each axis must have the target size or size 1.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Self, BackendError> {
        let added = shape.len() - self.shape.len();
        let count: usize = shape.iter().product();
        let mut elements = Vec::with_capacity(count);
        for flat in 0..count {
            let (mut rest, mut source, mut stride) = (flat, 0, 1);
            for axis in (0..shape.len()).rev() {
                let position = rest % shape[axis];
                rest /= shape[axis];
                if axis >= added {
                    let size = self.shape[axis - added];
                    source += if size == 1 { 0 } else { position * stride };
                    stride *= size;
                }
            }
            elements.push(self.elements[source]);
        }
        ToyTensor::new(shape, elements)
    }
}
