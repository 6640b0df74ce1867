//! Computes convolutions as products of the kernel matrix and a patch matrix (im2col).
//!
//! Each group of channels has a patch matrix, with a column for each combination of a batch index and a window
//! position. The column holds the operand elements that the window overlaps at that position. A patch matrix is never
//! stored as a whole. It is divided into blocks, and each block is packed in the order in which `product` reads it, and
//! then multiplied by the kernel matrix. Padding zeros are packed too, because 0 times an infinite kernel element must
//! be NaN.

use funcify_core::ops::Conv;

use super::map::Target;
use super::product::{Factor, product};
use super::source::Source;
use super::*;

/// The maximum number of rows in a block of the patch matrix.
const BLOCK_ROWS: usize = 256;
/// The maximum number of panels in a block of the patch matrix. A panel is two vectors wide.
const BLOCK_PANELS: usize = 4;

/// The maximum number of multiplications for which a convolution is computed in f64 even if the plan's float type is
/// f32. A convolution of this size takes only a few microseconds in either type, and f64 makes it as accurate as in the
/// reference evaluator.
const MAX_WIDE_TERMS: f64 = 65536.0;

/// A convolution whose sizes are known.
#[derive(Clone, Debug)]
pub(crate) struct Convolution {
    batch: usize,
    groups: usize,
    /// The number of channels of the operand per group.
    channels: usize,
    /// The number of channels of the result per group.
    results: usize,
    /// The spatial axes: rows, then columns. A convolution with one spatial axis has a single row.
    axes: [Spatial; 2],
}

/// A spatial axis of a convolution, with the size of the operand (`size`) and of the result (`output`).
#[derive(Clone, Debug)]
struct Spatial {
    size: usize,
    output: usize,
    /// For each window element, the window positions at which it overlaps an operand element.
    taps: Vec<Tap>,
}

/// The `count` window positions at which one window element overlaps an operand element: `first`, `first + step`, and
/// so on. The indices of the overlapped operand elements are `from`, `from + by`, and so on.
#[derive(Clone, Copy, Debug)]
struct Tap {
    first: usize,
    step: usize,
    count: usize,
    from: usize,
    by: usize,
}

/// Consecutive columns of the patch matrix that belong to the same row of the result and to the same panel.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The index of the run's first element in the packed block.
    packed: usize,
    len: usize,
    image: usize,
    row: usize,
    column: usize,
}

impl Convolution {
    /// Creates a convolution, or returns `None` if a size is unknown. `operands` holds the shapes of the operand and of
    /// the kernel, and `result` the shape of the result.
    pub(super) fn new(op: &Conv, operands: [Vec<usize>; 2], result: &[usize], sizes: &Sizes) -> Option<Self> {
        let [x, kernel] = operands;
        let groups = usize::try_from(op.groups.value(sizes).ok()?).ok()?;
        let spatial = |axis: usize| -> Option<Spatial> {
            let steps = [op.strides[axis], op.dilation[axis], op.input_dilation[axis]];
            let low = op.low[axis].value(sizes).ok()?;
            Some(Spatial::new(steps, low, [x[axis + 2], kernel[axis + 2], result[axis + 2]]))
        };
        let single = Spatial::new([1; 3], 0, [1; 3]);
        let axes = match op.strides.len() {
            1 => [single, spatial(0)?],
            _ => [spatial(0)?, spatial(1)?],
        };
        Some(Convolution { batch: x[0], groups, channels: kernel[1], results: kernel[0].checked_div(groups)?, axes })
    }

    /// Returns the number of rows of the patch matrix.
    fn inner(&self) -> usize {
        self.channels * self.axes[0].taps.len() * self.axes[1].taps.len()
    }

    /// Returns the number of multiplications in the convolution.
    pub(super) fn terms(&self) -> f64 {
        let results = self.batch * self.groups * self.results * self.axes[0].output * self.axes[1].output;
        results as f64 * self.inner() as f64
    }

    pub(super) fn run<T: MathTable, S: Simd>(&self, simd: S, to: &mut [T], x: &[T], kernel: &[T]) {
        if size_of::<T>() == 4 && self.terms() <= MAX_WIDE_TERMS {
            return self.run_wide(simd, to, x, kernel);
        }
        with_scratch(self.scratch_len::<T, S>(), |scratch| self.multiply(simd, to, x, kernel, scratch));
    }

    /// Computes the convolution in f64, and rounds the results.
    fn run_wide<T: Float, S: Simd>(&self, simd: S, to: &mut [T], x: &[T], kernel: &[T]) {
        let lens = [x.len(), kernel.len(), to.len(), self.scratch_len::<f64, S>()];
        with_scratch(lens.iter().sum(), |scratch: &mut [f64]| {
            let (wide_x, scratch) = scratch.split_at_mut(lens[0]);
            let (wide_kernel, scratch) = scratch.split_at_mut(lens[1]);
            let (wide_to, scratch) = scratch.split_at_mut(lens[2]);
            wide_x.iter_mut().zip(x).for_each(|(wide, x)| *wide = x.to_f64());
            wide_kernel.iter_mut().zip(kernel).for_each(|(wide, x)| *wide = x.to_f64());
            self.multiply(simd, wide_to, wide_x, wide_kernel, scratch);
            to.iter_mut().zip(wide_to).for_each(|(to, wide)| *to = T::from_f64(*wide));
        });
    }

    /// Returns the maximum number of rows, and of columns, in a block of the patch matrix.
    fn block_size<T: Float, S: Simd>(&self) -> [usize; 2] {
        let width = 2 * T::lanes::<S>();
        let columns = self.batch * self.axes[0].output * self.axes[1].output;
        [BLOCK_ROWS.min(self.inner()), (BLOCK_PANELS * width).min(columns.next_multiple_of(width))]
    }

    /// Returns the size of the scratch memory that the convolution needs, in elements.
    fn scratch_len<T: Float, S: Simd>(&self) -> usize {
        let [rows, lanes] = self.block_size::<T, S>();
        (rows + self.results) * lanes
    }

    /// Computes the convolution, block by block.
    fn multiply<T: MathTable, S: Simd>(&self, simd: S, to: &mut [T], x: &[T], kernel: &[T], scratch: &mut [T]) {
        let inner = self.inner();
        if to.is_empty() || inner == 0 {
            to.fill(T::ZERO);
            return;
        }
        let [rows, lanes] = self.block_size::<T, S>();
        let columns = self.batch * self.axes[0].output * self.axes[1].output;
        let (packed, sums) = scratch.split_at_mut(rows * lanes);
        for group in 0..self.groups {
            let kernel = &kernel[group * self.results * inner..][..self.results * inner];
            for first in (0..columns).step_by(lanes) {
                let block = Block { group, first, lanes: lanes.min(columns - first) };
                for row in (0..inner).step_by(rows) {
                    let k = rows.min(inner - row);
                    self.pack(packed, x, block, row..row + k, 2 * T::lanes::<S>());
                    let factor = Factor { left: &kernel[row..], stride: inner, k, packed };
                    let mut target = Target { data: &mut *sums, rows: self.results, lanes: block.lanes, stride: lanes };
                    product(simd, &mut target, &[factor], (row > 0).then_some(Source::Same), None);
                }
                self.store(to, sums, block, lanes);
            }
        }
    }

    /// Packs the given rows of a block of the patch matrix.
    fn pack<T: Float>(&self, packed: &mut [T], x: &[T], block: Block, rows: std::ops::Range<usize>, width: usize) {
        let [ys, xs] = &self.axes;
        let window = ys.taps.len() * xs.taps.len();
        let image = ys.size * xs.size;
        for run in self.runs(block, rows.len(), width) {
            let channels = (run.image * self.groups + block.group) * self.channels;
            let (mut channel, inside) = (rows.start / window, rows.start % window);
            let (mut tap_row, mut tap_column) = (inside / xs.taps.len(), inside % xs.taps.len());
            let mut packed_rows = 0;
            while packed_rows < rows.len() {
                let count = (xs.taps.len() - tap_column).min(rows.len() - packed_rows);
                let to = packed[run.packed + packed_rows * width..].chunks_mut(width).take(count);
                match self.line(x, channels + channel, image, tap_row, run.row) {
                    Some(line) => copy_taps(to, &xs.taps[tap_column..], line, run),
                    None => to.for_each(|to| to[..run.len].fill(T::ZERO)),
                }
                packed_rows += count;
                (tap_row, tap_column) = (tap_row + 1, 0);
                if tap_row == ys.taps.len() {
                    (channel, tap_row) = (channel + 1, 0);
                }
            }
        }
    }

    /// Returns the operand row that row `tap` of the window overlaps when the window is at `row`, or `None` if that row
    /// of the window overlaps only zeros.
    fn line<'x, T>(&self, x: &'x [T], channel: usize, image: usize, tap: usize, row: usize) -> Option<&'x [T]> {
        let [ys, xs] = &self.axes;
        Some(&x[channel * image + ys.taps[tap].source(row)? * xs.size..][..xs.size])
    }

    /// Splits the columns of a block into runs.
    fn runs(&self, block: Block, rows: usize, width: usize) -> impl Iterator<Item = Run> {
        let [height, line] = [self.axes[0].output, self.axes[1].output];
        let mut lane = 0;
        std::iter::from_fn(move || {
            if lane == block.lanes {
                return None;
            }
            let at = block.first + lane;
            let (row, column) = (at / line, at % line);
            let len = (line - column).min(width - lane % width).min(block.lanes - lane);
            let packed = lane / width * rows * width + lane % width;
            lane += len;
            Some(Run { packed, len, image: row / height, row: row % height, column })
        })
    }

    /// Copies the sums of a block to the result.
    fn store<T: Float>(&self, to: &mut [T], sums: &[T], block: Block, stride: usize) {
        let image = self.axes[0].output * self.axes[1].output;
        let mut lane = 0;
        while lane < block.lanes {
            let at = block.first + lane;
            let len = (image - at % image).min(block.lanes - lane);
            let first = (at / image * self.groups + block.group) * self.results;
            for channel in 0..self.results {
                let to = &mut to[(first + channel) * image + at % image..][..len];
                to.copy_from_slice(&sums[channel * stride + lane..][..len]);
            }
            lane += len;
        }
    }
}

/// A range of columns of a group's patch matrix.
#[derive(Clone, Copy, Debug)]
struct Block {
    group: usize,
    first: usize,
    lanes: usize,
}

impl Spatial {
    fn new([stride, dilation, input_dilation]: [usize; 3], low: i64, [size, window, output]: [usize; 3]) -> Self {
        let (step, by) = {
            let common = greatest_common_divisor(stride, input_dilation);
            (input_dilation / common, stride / common)
        };
        let tap = |element: usize| {
            let nowhere = Tap { first: 0, step, count: 0, from: 0, by };
            // The position of the window element in the dilated operand when the window is at position 0.
            let start = (element as i128) * (dilation as i128) - i128::from(low);
            let position = |at: usize| start + at as i128 * stride as i128;
            let first = (-start).max(0).unsigned_abs().div_ceil(stride as u128);
            let first = usize::try_from(first).unwrap_or(usize::MAX);
            let mut candidates = (first..output).take(step);
            let Some(first) = candidates.find(|at| position(*at) % input_dilation as i128 == 0) else { return nowhere };
            let from = usize::try_from(position(first) / input_dilation as i128).unwrap_or(usize::MAX);
            if from >= size {
                return nowhere;
            }
            let count = (output - first).div_ceil(step).min((size - from).div_ceil(by));
            Tap { first, step, count, from, by }
        };
        Spatial { size, output, taps: (0..window).map(tap).collect() }
    }
}

impl Tap {
    /// Returns the index of the operand element that the window element overlaps when the window is at `position`, or
    /// `None` if the window element overlaps a zero.
    #[inline]
    fn source(self, position: usize) -> Option<usize> {
        let after = position.checked_sub(self.first)?;
        let index = if self.step == 1 { after } else { after / self.step };
        (index < self.count && index * self.step == after).then(|| self.from + index * self.by)
    }

    /// Copies the operand element that the window element overlaps at each window position from `start` on. Writes 0
    /// where the window element overlaps a zero.
    #[inline(always)]
    fn copy<T: Float>(self, to: &mut [T], line: &[T], start: usize) {
        let Tap { first, step, count, from, by } = self;
        let (begin, end) = (start.saturating_sub(first), (start + to.len()).saturating_sub(first));
        if step == 1 {
            let (begin, end) = (begin.min(count), end.min(count));
            if begin == end {
                return to.fill(T::ZERO);
            }
            let head = first + begin - start;
            to[..head].fill(T::ZERO);
            to[head + end - begin..].fill(T::ZERO);
            let to = &mut to[head..][..end - begin];
            if by == 1 {
                copy_line(to, &line[from + begin..][..end - begin]);
            } else {
                to.iter_mut().zip(line[from + begin * by..].iter().step_by(by)).for_each(|(to, x)| *to = *x);
            }
            return;
        }
        to.fill(T::ZERO);
        for index in begin.div_ceil(step)..end.div_ceil(step).min(count) {
            to[first + index * step - start] = line[from + index * by];
        }
    }
}

/// Copies the operand elements that each tap overlaps in a run of columns. `to` yields one row of the patch matrix per
/// tap.
fn copy_taps<'t, T: Float>(to: impl Iterator<Item = &'t mut [T]>, taps: &[Tap], line: &[T], run: Run) {
    match run.len {
        1 => copy_few::<T, 1>(to, taps, line, run.column),
        2 => copy_few::<T, 2>(to, taps, line, run.column),
        3 => copy_few::<T, 3>(to, taps, line, run.column),
        4 => copy_few::<T, 4>(to, taps, line, run.column),
        len => to.zip(taps).for_each(|(to, tap)| tap.copy(&mut to[..len], line, run.column)),
    }
}

/// Like [`copy_taps`], but for exactly `N` columns. Such short runs are common in the convolution that computes the
/// gradient of a kernel. That convolution has many taps, but its result is only as wide as the kernel.
fn copy_few<'t, T: Float, const N: usize>(
    to: impl Iterator<Item = &'t mut [T]>,
    taps: &[Tap],
    line: &[T],
    column: usize,
) {
    for (to, tap) in to.zip(taps) {
        let is_inside = tap.first <= column && column + N <= tap.first + tap.count;
        let from =
            (is_inside && tap.step == 1 && tap.by == 1).then(|| line[tap.from + column - tap.first..].first_chunk());
        match (to.first_chunk_mut::<N>(), from.flatten()) {
            (Some(to), Some(from)) => *to = *from,
            _ => tap.copy(&mut to[..N], line, column),
        }
    }
}

/// Copies a slice. Short slices are copied element by element, which is faster than a function call.
#[inline(always)]
fn copy_line<T: Copy>(to: &mut [T], from: &[T]) {
    if to.len() < 8 {
        to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
    } else {
        to.copy_from_slice(from);
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}
