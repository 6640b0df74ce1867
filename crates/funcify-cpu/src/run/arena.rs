//! Scratch memory: a single allocation that all calls reuse. Each of its regions starts at a cache line.

const LINE_BYTES: usize = 64;

/// The memory of all scratch regions.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    memory: Vec<T>,
    sizes: Vec<usize>,
}

impl<T: Default + Clone> Arena<T> {
    /// Allocates regions of the given sizes, filled with 0.
    pub(crate) fn new(sizes: impl Iterator<Item = usize>) -> Self {
        let sizes: Vec<usize> = sizes.collect();
        let all: usize = sizes.iter().map(|size| whole_lines::<T>(*size)).sum();
        Arena { memory: vec![T::default(); all + LINE_BYTES / size_of::<T>()], sizes }
    }
}

impl<T> Arena<T> {
    /// Returns the regions, in order.
    pub(crate) fn slices(&mut self) -> impl Iterator<Item = &mut [T]> {
        let skipped = self.memory.as_ptr().align_offset(LINE_BYTES);
        let mut rest = &mut self.memory[skipped..];
        self.sizes.iter().map(move |size| {
            let (slice, after) = std::mem::take(&mut rest).split_at_mut(whole_lines::<T>(*size));
            rest = after;
            &mut slice[..*size]
        })
    }
}

fn whole_lines<T>(elements: usize) -> usize {
    elements.next_multiple_of(LINE_BYTES / size_of::<T>())
}
