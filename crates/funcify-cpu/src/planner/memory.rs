//! Scratch memory while a plan is made: who has which elements, and when they are free again.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Elements that start at a cache line of any element type.
const LINE: usize = 16;

/// Elements of scratch memory. Dropped with the last view of it, they may be used again.
#[derive(Debug)]
pub(super) struct Register {
    /// What tells it from every other register of its memory.
    pub(super) number: usize,
    pub(super) start: usize,
    len: usize,
    memory: Rc<RefCell<Ranges>>,
}

impl Drop for Register {
    fn drop(&mut self) {
        self.memory.borrow_mut().free.insert((self.len, self.start));
    }
}

/// The scratch memory of a program.
#[derive(Clone, Default, Debug)]
pub(super) struct Memory(Rc<RefCell<Ranges>>);

#[derive(Default, Debug)]
struct Ranges {
    /// By length and start, so that the smallest one that has enough is found at once.
    free: BTreeSet<(usize, usize)>,
    end: usize,
    /// How many registers there were so far.
    registers: usize,
}

impl Memory {
    /// So many elements: of those that were used before the smallest range that has enough, else, or if they are to be
    /// `untouched`, new ones.
    pub(super) fn reserve(&self, len: usize, untouched: bool) -> Rc<Register> {
        let len = len.next_multiple_of(LINE);
        let mut ranges = self.0.borrow_mut();
        let fitting = if untouched { None } else { ranges.free.range((len, 0)..).next().copied() };
        let start = match fitting {
            Some(range @ (free, start)) => {
                ranges.free.remove(&range);
                if free > len {
                    ranges.free.insert((free - len, start + len));
                }
                start
            }
            None => {
                ranges.end += len;
                ranges.end - len
            }
        };
        ranges.registers += 1;
        Rc::new(Register { number: ranges.registers, start, len, memory: self.0.clone() })
    }

    /// How many elements are needed in all.
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
