//! Copies the lanes of a block from a stream to a tile, and back.

use pulp::bytemuck::Pod;
use smallvec::SmallVec;

use crate::placement::{Axis, Order, Stream};

/// The minimum number of lanes in a plane. If a stream with more than two axes has smaller planes, its innermost axes
/// are merged into a group, and the offsets of the lanes in a group are computed once per block.
const SMALL_PLANE: usize = 32;

/// The memory offsets of the lanes of a group, relative to its first lane.
type Offsets = SmallVec<[isize; 4 * SMALL_PLANE]>;

/// A block of `count` lanes of a stream, beginning at lane `start`.
pub(crate) struct Block<'b> {
    pub(crate) stream: &'b Stream,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

/// Adjacent rows of lanes in a block, along the two innermost axes of the stream.
struct Plane {
    /// The index of the plane's first lane in the block.
    lane: usize,
    rows: usize,
    /// The number of lanes in a row.
    width: usize,
    /// The number of lanes of the first row that precede the plane. It is 0 if the plane has more than one row.
    skipped: usize,
    /// The offset in memory of the first row's first lane, even if that lane is skipped.
    at: usize,
    /// The strides between rows, and between the lanes of a row.
    strides: [isize; 2],
}

impl Block<'_> {
    /// Copies the lanes from `data` to a tile.
    pub(crate) fn load<E: Pod>(&self, to: &mut [E], data: &[E]) {
        match self.stream.order {
            Order::Splat => to.fill(data[self.stream.first]),
            Order::Dense => to.copy_from_slice(&data[self.start..][..self.count]),
            Order::Strided => {
                let own = self.count.min(self.stream.period);
                match self.groups() {
                    None => each_plane(self, &self.stream.axes, own, |plane| plane.load(to, data)),
                    Some((axes, offsets)) => each_plane(self, &axes, own, |plane| {
                        for row in 0..plane.rows {
                            let to = &mut to[plane.lane + row * plane.width..][..plane.width];
                            let first = plane.row(row);
                            for (to, offset) in to.iter_mut().zip(&offsets[plane.skipped..]) {
                                *to = data[first.wrapping_add_signed(*offset)];
                            }
                        }
                    }),
                }
                repeat(to, own);
            }
        }
    }

    /// Copies a tile to the lanes in `data`.
    pub(crate) fn store<E: Pod>(&self, from: &[E], data: &mut [E]) {
        if self.stream.order == Order::Dense {
            return data[self.start..][..self.count].copy_from_slice(from);
        }
        match self.groups() {
            None => each_plane(self, &self.stream.axes, self.count, |plane| plane.store(from, data)),
            Some((axes, offsets)) => each_plane(self, &axes, self.count, |plane| {
                for row in 0..plane.rows {
                    let from = &from[plane.lane + row * plane.width..][..plane.width];
                    let first = plane.row(row);
                    for (from, offset) in from.iter().zip(&offsets[plane.skipped..]) {
                        data[first.wrapping_add_signed(*offset)] = *from;
                    }
                }
            }),
        }
    }

    /// Merges the innermost axes into a group. Returns the resulting axes, in which the group is a single axis, and the
    /// offset of each lane of the group. Returns `None` if the stream has fewer than three axes, or if its planes have
    /// at least [`SMALL_PLANE`] lanes.
    fn groups(&self) -> Option<(SmallVec<[Axis; 4]>, Offsets)> {
        let axes = &self.stream.axes;
        if axes.len() < 3 || axes[axes.len() - 2..].iter().map(|axis| axis.size).product::<usize>() >= SMALL_PLANE {
            return None;
        }
        let mut offsets: Offsets = SmallVec::from_elem(0, 1);
        let mut outer = axes.len();
        while outer > 0 && offsets.len() * axes[outer - 1].size <= 4 * SMALL_PLANE {
            outer -= 1;
            let inner = offsets.len();
            for step in 1..axes[outer].size {
                for lane in 0..inner {
                    offsets.push(offsets[lane] + step as isize * axes[outer].stride);
                }
            }
        }
        let mut grouped: SmallVec<[Axis; 4]> = axes[..outer].into();
        grouped.push(Axis { size: offsets.len(), stride: 0 });
        Some((grouped, offsets))
    }
}

/// Fills a slice by repeating its first `period` elements.
fn repeat<E: Pod>(to: &mut [E], period: usize) {
    let mut filled = period;
    while filled < to.len() {
        // The length of each copy is a multiple of the period, except possibly for the last copy.
        let more = filled.min(to.len() - filled);
        to.copy_within(..more, filled);
        filled += more;
    }
}

impl Plane {
    /// Returns the offset in memory of a row's first lane, even if that lane is skipped.
    #[inline(always)]
    fn row(&self, row: usize) -> usize {
        self.at.wrapping_add_signed(row as isize * self.strides[0])
    }

    #[inline(always)]
    fn load<E: Pod>(&self, to: &mut [E], data: &[E]) {
        let to = &mut to[self.lane..][..self.rows * self.width];
        let at = self.at.wrapping_add_signed(self.skipped as isize * self.strides[1]);
        if self.strides[0] == 0 && self.rows > 1 {
            load_row(&mut to[..self.width], data, at, self.strides[1]);
            return repeat(to, self.width);
        }
        match self.width {
            2 => load_rows::<2, E>(to, data, at, self.strides),
            3 => load_rows::<3, E>(to, data, at, self.strides),
            4 => load_rows::<4, E>(to, data, at, self.strides),
            5 => load_rows::<5, E>(to, data, at, self.strides),
            6 => load_rows::<6, E>(to, data, at, self.strides),
            7 => load_rows::<7, E>(to, data, at, self.strides),
            8 => load_rows::<8, E>(to, data, at, self.strides),
            16 if (0..2).contains(&self.strides[1]) => load_rows::<16, E>(to, data, at, self.strides),
            width if self.strides[0] == 1 && !(0..2).contains(&self.strides[1]) => {
                load_columns(to, width, data, at, self.strides[1])
            }
            width => {
                for (row, to) in to.chunks_exact_mut(width).enumerate() {
                    load_row(to, data, at.wrapping_add_signed(row as isize * self.strides[0]), self.strides[1]);
                }
            }
        }
    }

    #[inline(always)]
    fn store<E: Pod>(&self, from: &[E], data: &mut [E]) {
        let from = &from[self.lane..][..self.rows * self.width];
        let at = self.at.wrapping_add_signed(self.skipped as isize * self.strides[1]);
        match self.width {
            2 => store_rows::<2, E>(from, data, at, self.strides),
            3 => store_rows::<3, E>(from, data, at, self.strides),
            4 => store_rows::<4, E>(from, data, at, self.strides),
            5 => store_rows::<5, E>(from, data, at, self.strides),
            6 => store_rows::<6, E>(from, data, at, self.strides),
            7 => store_rows::<7, E>(from, data, at, self.strides),
            8 => store_rows::<8, E>(from, data, at, self.strides),
            16 if self.strides[1] == 1 => store_rows::<16, E>(from, data, at, self.strides),
            // Store by columns only if the columns cannot overlap. Otherwise, the next arm stores the lanes in order.
            width if self.strides[0] == 1 && self.strides[1].unsigned_abs() >= self.rows => {
                store_columns(from, width, data, at, self.strides[1])
            }
            width => {
                for (row, from) in from.chunks_exact(width).enumerate() {
                    store_row(from, data, at.wrapping_add_signed(row as isize * self.strides[0]), self.strides[1]);
                }
            }
        }
    }
}

/// Loads rows of `N` lanes.
fn load_rows<const N: usize, E: Pod>(to: &mut [E], data: &[E], mut at: usize, [outer, inner]: [isize; 2]) {
    let rows = to.as_chunks_mut::<N>().0;
    match (outer, inner) {
        (1, 0) => {
            let data = &data[at..][..rows.len()];
            for (row, x) in rows.iter_mut().zip(data) {
                *row = [*x; N];
            }
        }
        (_, 0) => {
            for row in rows {
                *row = [data[at]; N];
                at = at.wrapping_add_signed(outer);
            }
        }
        (_, 1) => {
            for row in rows {
                row.copy_from_slice(&data[at..][..N]);
                at = at.wrapping_add_signed(outer);
            }
        }
        (1, _) => {
            let columns: [&[E]; N] =
                std::array::from_fn(|lane| &data[at.wrapping_add_signed(lane as isize * inner)..][..rows.len()]);
            for (index, row) in rows.iter_mut().enumerate() {
                *row = columns.map(|column| column[index]);
            }
        }
        _ => {
            for row in rows {
                *row = std::array::from_fn(|lane| data[at.wrapping_add_signed(lane as isize * inner)]);
                at = at.wrapping_add_signed(outer);
            }
        }
    }
}

/// Stores rows of `N` lanes.
fn store_rows<const N: usize, E: Pod>(from: &[E], data: &mut [E], mut at: usize, [outer, inner]: [isize; 2]) {
    for row in from.as_chunks::<N>().0 {
        match inner {
            1 => data[at..][..N].copy_from_slice(row),
            _ => {
                for (lane, x) in row.iter().enumerate() {
                    data[at.wrapping_add_signed(lane as isize * inner)] = *x;
                }
            }
        }
        at = at.wrapping_add_signed(outer);
    }
}

/// Loads a row. Checks the bounds once per row, not once per lane.
#[inline(always)]
fn load_row<E: Pod>(to: &mut [E], data: &[E], at: usize, stride: isize) {
    if stride == 0 {
        return to.fill(data[at]);
    }
    let Some((last, to)) = to.split_last_mut() else { return };
    let step = stride.unsigned_abs();
    if stride < 0 {
        let first = at - to.len() * step;
        *last = data[first];
        let data = &data[first + 1..=at];
        match step {
            1 => to.iter_mut().zip(data.iter().rev()).for_each(|(to, x)| *to = *x),
            _ => to.iter_mut().zip(data.rchunks_exact(step)).for_each(|(to, chunk)| *to = chunk[step - 1]),
        }
    } else {
        *last = data[at + to.len() * step];
        let data = &data[at..][..to.len() * step];
        match step {
            1 => to.copy_from_slice(data),
            2 => to.iter_mut().zip(data.as_chunks::<2>().0).for_each(|(to, [x, _])| *to = *x),
            _ => to.iter_mut().zip(data.chunks_exact(step)).for_each(|(to, chunk)| *to = chunk[0]),
        }
    }
}

/// Stores a row.
#[inline(always)]
fn store_row<E: Pod>(from: &[E], data: &mut [E], at: usize, stride: isize) {
    let Some((last, from)) = from.split_last() else { return };
    let step = stride.unsigned_abs();
    if stride < 0 {
        let first = at - from.len() * step;
        data[first] = *last;
        let data = &mut data[first + 1..=at];
        match step {
            1 => data.iter_mut().rev().zip(from).for_each(|(to, x)| *to = *x),
            _ => data.rchunks_exact_mut(step).zip(from).for_each(|(chunk, x)| chunk[step - 1] = *x),
        }
    } else {
        data[at + from.len() * step] = *last;
        let data = &mut data[at..][..from.len() * step];
        match step {
            0 => {}
            1 => data.copy_from_slice(from),
            _ => data.chunks_exact_mut(step).zip(from).for_each(|(chunk, x)| chunk[0] = *x),
        }
    }
}

/// The number of rows that are transposed together.
const TRANSPOSED: usize = 8;

/// Loads rows that are columns in memory: the stride between rows is 1, so adjacent elements in memory belong to
/// different rows.
#[inline(always)]
fn load_columns<E: Pod>(to: &mut [E], width: usize, data: &[E], at: usize, stride: isize) {
    let mut groups = to.chunks_exact_mut(TRANSPOSED * width);
    let mut first = at;
    for group in &mut groups {
        let mut rows = group.chunks_exact_mut(width);
        let mut rows: [&mut [E]; TRANSPOSED] = std::array::from_fn(|_| match rows.next() {
            Some(row) => &mut row[..width],
            None => unreachable!("the group has as many rows"),
        });
        let mut at = first;
        for lane in 0..width {
            let column = &data[at..][..TRANSPOSED];
            for (row, x) in rows.iter_mut().zip(column) {
                row[lane] = *x;
            }
            at = at.wrapping_add_signed(stride);
        }
        first += TRANSPOSED;
    }
    for to in groups.into_remainder().chunks_exact_mut(width) {
        load_row(to, data, first, stride);
        first += 1;
    }
}

/// Stores rows that are columns in memory: the inverse of [`load_columns`].
#[inline(always)]
fn store_columns<E: Pod>(from: &[E], width: usize, data: &mut [E], at: usize, stride: isize) {
    let groups = from.chunks_exact(TRANSPOSED * width);
    let mut first = at;
    let rest = groups.remainder();
    for group in groups {
        let rows: [&[E]; TRANSPOSED] = std::array::from_fn(|row| &group[row * width..][..width]);
        let mut at = first;
        for lane in 0..width {
            let column = &mut data[at..][..TRANSPOSED];
            for (row, x) in rows.iter().zip(column) {
                *x = row[lane];
            }
            at = at.wrapping_add_signed(stride);
        }
        first += TRANSPOSED;
    }
    for from in rest.chunks_exact(width) {
        store_row(from, data, first, stride);
        first += 1;
    }
}

/// Calls `run` for each plane of the first `count` lanes of a block. `axes` are the axes of the stream, possibly with
/// the innermost ones merged into a group.
#[inline(always)]
fn each_plane(block: &Block<'_>, axes: &[Axis], count: usize, mut run: impl FnMut(Plane)) {
    const POINT: Axis = Axis { size: 1, stride: 0 };
    let (inner, axes) = axes.split_last().unwrap_or((&POINT, &[]));
    let (rows, outer) = axes.split_last().unwrap_or((&POINT, &[]));
    let strides = [rows.stride, inner.stride];
    let (mut rest, mut skipped) = (block.start / inner.size, block.start % inner.size);
    let mut row = rest % rows.size;
    rest /= rows.size;
    let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, outer.len());
    let mut at = block.stream.first;
    for (index, axis) in index.iter_mut().zip(outer).rev() {
        *index = rest % axis.size;
        rest /= axis.size;
        at = at.wrapping_add_signed(*index as isize * axis.stride);
    }
    let mut lane = 0;
    while lane < count {
        let left = count - lane;
        // Rows at the ends of the block may be partial.
        let (own, width) = match skipped > 0 || left < inner.size {
            true => (1, left.min(inner.size - skipped)),
            false => ((rows.size - row).min(left / inner.size), inner.size),
        };
        let first = at.wrapping_add_signed(row as isize * rows.stride);
        run(Plane { lane, rows: own, width, skipped, at: first, strides });
        lane += own * width;
        row += own;
        skipped = 0;
        if row == rows.size {
            row = 0;
            for (index, axis) in index.iter_mut().zip(outer).rev() {
                *index += 1;
                at = at.wrapping_add_signed(axis.stride);
                if *index < axis.size {
                    break;
                }
                at = at.wrapping_add_signed(-(axis.stride * axis.size as isize));
                *index = 0;
            }
        }
    }
}
