//! Allocates the scratch memory of a plan under construction.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The alignment of ranges, in elements. It is at least a cache line for every element type.
const ELEMENTS_PER_LINE: usize = 16;

/// An allocated range of scratch memory. It becomes free when the last view that refers to it is dropped.
#[derive(Debug)]
pub(super) struct Register {
    /// The index of the register among all registers of the same memory.
    pub(super) number: usize,
    pub(super) start: usize,
    len: usize,
    memory: Rc<RefCell<Allocator>>,
}

impl Drop for Register {
    fn drop(&mut self) {
        self.memory.borrow_mut().free.insert((self.len, self.start));
    }
}

/// The scratch memory of a program.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory(Rc<RefCell<Allocator>>);

#[derive(Default, Debug)]
struct Allocator {
    /// The free ranges, ordered by length and then start, so that the best fit is found quickly.
    free: BTreeSet<(usize, usize)>,
    end: usize,
    /// The number of registers created so far.
    registers: usize,
}

impl Memory {
    /// Reserves `len` elements. Uses the smallest free range that is long enough, or new memory if no range is long
    /// enough or if `untouched` is set.
    pub(super) fn reserve(&self, len: usize, untouched: bool) -> Rc<Register> {
        let len = len.next_multiple_of(ELEMENTS_PER_LINE);
        let mut allocator = self.0.borrow_mut();
        let fitting = if untouched { None } else { allocator.free.range((len, 0)..).next().copied() };
        let start = match fitting {
            Some(range @ (free, start)) => {
                allocator.free.remove(&range);
                if free > len {
                    allocator.free.insert((free - len, start + len));
                }
                start
            }
            None => {
                allocator.end += len;
                allocator.end - len
            }
        };
        allocator.registers += 1;
        Rc::new(Register { number: allocator.registers, start, len, memory: self.0.clone() })
    }

    /// Returns the total size, in elements.
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
        let (first, second) = (memory.reserve(20, false), memory.reserve(5, false));
        assert_eq!((first.start, second.start, memory.len()), (0, 32, 48));
        drop(first);
        assert_eq!(memory.reserve(16, true).start, 48);
        let (third, fourth) = (memory.reserve(16, false), memory.reserve(1, false));
        assert_eq!((third.start, fourth.start, memory.len()), (48, 0, 64));
    }
}
