//! Allocates the scratch memory of a plan under construction.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The alignment of ranges, in elements. For floats, an aligned range starts at a cache line.
const ELEMENTS_PER_LINE: usize = 16;

/// The maximum length of small ranges, which are reused only for tensors of the same length. Register code requires
/// that no two operands of different lengths overlap.
const MAX_SMALL: usize = 64;

/// An allocated range of scratch memory. It becomes free when the last view that refers to it is dropped.
#[derive(Debug)]
pub(super) struct Register {
    /// The index of the register among all registers of the same memory.
    pub(super) number: usize,
    pub(super) start: usize,
    /// The requested length if it is at most [`MAX_SMALL`], and the padded length otherwise.
    len: usize,
    memory: Rc<RefCell<Allocator>>,
}

impl Drop for Register {
    fn drop(&mut self) {
        let mut allocator = self.memory.borrow_mut();
        let free = if self.len <= MAX_SMALL { &mut allocator.small } else { &mut allocator.free };
        free.insert((self.len, self.start));
    }
}

/// The scratch memory of a program.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory(Rc<RefCell<Allocator>>);

#[derive(Default, Debug)]
struct Allocator {
    /// The free ranges, each given by its length and start. The order by length makes it fast to find the best fit.
    free: BTreeSet<(usize, usize)>,
    /// The free ranges for small tensors. Each entry holds the length of the tensor and the start of the range.
    small: BTreeSet<(usize, usize)>,
    end: usize,
    /// The number of registers created so far.
    registers: usize,
}

impl Memory {
    /// Reserves `len` elements in the smallest free range that is long enough or, for a small tensor, in a free range
    /// of the same length. Uses new memory if no such range is free, or if `untouched` is set.
    pub(super) fn reserve(&self, len: usize, untouched: bool) -> Rc<Register> {
        let mut allocator = self.0.borrow_mut();
        let is_small = len <= MAX_SMALL;
        let padded = len.next_multiple_of(ELEMENTS_PER_LINE);
        let fitting = match (untouched, is_small) {
            (true, _) => None,
            (false, true) => allocator.small.range((len, 0)..=(len, usize::MAX)).next().copied(),
            (false, false) => allocator.free.range((padded, 0)..).next().copied(),
        };
        let len = if is_small { len } else { padded };
        let start = match fitting {
            Some(range) if is_small => {
                allocator.small.remove(&range);
                range.1
            }
            Some(range @ (free, start)) => {
                allocator.free.remove(&range);
                if free > len {
                    allocator.free.insert((free - len, start + len));
                }
                start
            }
            None => {
                allocator.end += padded;
                allocator.end - padded
            }
        };
        allocator.registers += 1;
        Rc::new(Register { number: allocator.registers, start, len, memory: self.0.clone() })
    }

    /// Returns the size of the memory, in elements.
    pub(super) fn len(&self) -> usize {
        self.0.borrow().end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_nothing_names_it() {
        let memory = Memory::default();
        let (first, second) = (memory.reserve(200, false), memory.reserve(90, false));
        assert_eq!((first.start, second.start, memory.len()), (0, 208, 304));
        drop(first);
        assert_eq!(memory.reserve(96, true).start, 304);
        let (third, fourth) = (memory.reserve(96, false), memory.reserve(70, false));
        assert_eq!((third.start, fourth.start, memory.len()), (304, 0, 400));
    }

    #[test]
    fn small_tensors_of_different_lengths_do_not_overlap() {
        let memory = Memory::default();
        drop(memory.reserve(2, false));
        let (second, third) = (memory.reserve(1, false), memory.reserve(2, false));
        assert_eq!((second.start, third.start, memory.len()), (16, 0, 32));
    }
}
