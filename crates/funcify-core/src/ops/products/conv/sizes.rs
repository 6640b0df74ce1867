//! Computes the sizes of convolutions along spatial axes, and the padding that backends apply to the operand.

use std::ops::Range;

use super::Conv;
use crate::error::{Place, Result};
use crate::ops::dilated_size;
use crate::types::{Dim, Shape, Sizes};

/// The padding of a dilated axis: the range of the axis that is kept, and the numbers of zeros before and after that
/// range.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Padding {
    /// The range of the dilated axis that is kept.
    pub kept: Range<usize>,
    /// The number of zeros before the kept range.
    pub before: usize,
    /// The number of zeros after the kept range.
    pub after: usize,
}

impl Conv {
    /// Returns the size of the result along a spatial axis. Fails if the window does not fit, or if `size` is symbolic
    /// and the options require a constant size.
    pub(super) fn output_size(&self, at: &Place, axis: usize, size: &Dim, window: &Dim) -> Result<Dim> {
        let symbolic = |option: &str| {
            let fix = format!("use a fixed size for the axis, or {option} of 1");
            at.mismatch(format!("spatial axis {axis}"), "a size without symbols", size, fix)
        };
        let spread = dilated_size(size, self.input_dilation[axis]).ok_or_else(|| symbolic("an input dilation"))?;
        let padded = spread + &self.low[axis] + &self.high[axis];
        // The number of window positions. An empty window, which occurs in derivatives, may have positions even if the
        // padded size is negative.
        let positions = padded.clone() - (window.clone() - 1) * self.dilation[axis];
        if positions.is_at_least(&Dim::from(0)) == Some(false) {
            let found = format!("{window} elements {} apart on {padded}", self.dilation[axis]);
            let expected = "a window that fits the padded axis";
            let fix = "pad more, or use a smaller kernel";
            return Err(at.mismatch(format!("spatial axis {axis}"), expected, found, fix));
        }
        match (self.strides[axis], positions.constant()) {
            (1, _) => Ok(positions),
            (stride, Some(positions)) => Ok(Dim::from((positions as usize).div_ceil(stride))),
            (_, None) => Err(symbolic("a stride")),
        }
    }

    /// Returns the sizes of the result at run time, or an error if the window does not fit.
    #[doc(hidden)]
    pub fn result_shape(&self, at: &Place, shape: &Shape, sizes: &Sizes) -> Result<Vec<usize>> {
        let value = |dim: &Dim| dim.value(sizes).map_err(|error| crate::ops::no_size(at, error));
        let numbers = shape.dims().iter().map(value).collect::<Result<Vec<i64>>>()?;
        if let Some(axis) = numbers.iter().position(|number| *number < 0) {
            let (expected, fix) = ("a window that fits the padded axis", "call with a longer operand");
            let found = format!("{} = {} positions", shape[axis], numbers[axis]);
            return Err(at.mismatch(format!("axis {axis} of the result"), expected, found, fix));
        }
        Ok(numbers.into_iter().map(|number| number as usize).collect())
    }

    /// Returns the padding of a spatial axis of `size` elements.
    #[doc(hidden)]
    pub fn padding(&self, at: &Place, axis: usize, size: usize, sizes: &Sizes) -> Result<Padding> {
        let value = |dim: &Dim| dim.value(sizes).map_err(|error| crate::ops::no_size(at, error));
        // Use 128 bits, because `low` and `high` may be at opposite ends of the 64-bit range.
        let (low, high) = (i128::from(value(&self.low[axis])?), i128::from(value(&self.high[axis])?));
        let spread = if size == 0 { 0 } else { (size as i128 - 1) * self.input_dilation[axis] as i128 + 1 };
        let (start, end) = ((-low).clamp(0, spread), (spread + high).clamp(0, spread));
        let padded = (spread + low + high).max(0);
        if start >= end {
            return Ok(Padding { kept: 0..0, before: 0, after: padded as usize });
        }
        let before = low.max(0);
        Ok(Padding {
            kept: start as usize..end as usize,
            before: before as usize,
            after: (padded - before - (end - start)) as usize,
        })
    }

    /// Returns the index in the operand for a position on the dilated axis, or `None` if that position holds an
    /// inserted zero or lies outside the axis.
    pub(super) fn source(&self, axis: usize, position: i64, size: usize) -> Option<usize> {
        let dilation = self.input_dilation[axis] as i64;
        let source = usize::try_from(position / dilation).ok()?;
        (position >= 0 && position % dilation == 0 && source < size).then_some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Site;
    use crate::ops::ConvOptions;

    #[test]
    fn zeros_around_and_elements_taken_away() {
        let padding = |low, high, size, input_dilation| {
            let options =
                ConvOptions { padding: [(low, high)], input_dilation: [input_dilation], ..Default::default() };
            let padding = Conv::from(options).padding(&Place::new("conv", Site::Unknown), 0, size, &Sizes::new());
            let Padding { kept, before, after } = padding.unwrap();
            (kept, before, after)
        };
        assert_eq!(padding(2, 1, 5, 1), (0..5, 2, 1));
        assert_eq!(padding(-2, 1, 5, 1), (2..5, 0, 1));
        assert_eq!(padding(1, -3, 3, 2), (0..2, 1, 0));
        assert_eq!(padding(-9, 9, 5, 1), (0..0, 0, 5));
        assert_eq!(padding(9, -9, 5, 1), (0..0, 0, 5));
        assert_eq!(padding(1, 1, 0, 3), (0..0, 0, 2));
    }
}
