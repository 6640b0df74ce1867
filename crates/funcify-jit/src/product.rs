//! A row times a matrix, as a loop inside the routine's.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value as Raw};

use crate::builder::{Builder, Stream, Value, memory};
use crate::number::Number;

/// A matrix that no iteration writes, behind a stream.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'m> {
    /// Where it lies.
    pub stream: Stream,
    /// How many rows it has.
    pub rows: usize,
    /// Elements from one row to the next.
    pub pitch: usize,
    /// The vectors of the first row that are multiplied: elements behind the stream.
    pub columns: &'m [usize],
}

/// A row of elements.
#[derive(Clone, Debug)]
pub struct RegisterRow {
    vectors: Vec<Value>,
    /// Where a copy lies in memory, if a product needed one.
    copy: Option<Raw>,
}

impl RegisterRow {
    /// The elements of vectors, one after the other.
    pub fn new(vectors: Vec<Value>) -> Self {
        RegisterRow { vectors, copy: None }
    }
}

/// How often a round of a loop goes through the sums.
const TURNS: usize = 2;

impl<T: Number> Builder<'_, T> {
    /// Adds a row times a matrix: `sums[v][k % SUMS] += row[k] * matrix[k][v]` for each row k of the matrix, in order.
    ///
    /// Sums and an element of the row should fit into the processor's registers, of which some have 16. Panics if the row has fewer
    /// elements than the matrix has rows.
    pub fn add_products<const SUMS: usize>(
        &mut self,
        sums: &mut [[Value; SUMS]],
        row: &mut RegisterRow,
        matrix: Matrix<'_>,
    ) {
        assert!(matrix.rows <= row.vectors.len() * self.lanes, "a row of {} vectors", row.vectors.len());
        let first = self.place(matrix.stream, self.end_of(matrix), false);
        let rounds = matrix.rows / (TURNS * SUMS);
        let behind = if rounds == 0 { first } else { self.rounds(sums, row, matrix, first, rounds) };
        let done = rounds * TURNS * SUMS;
        for k in done..matrix.rows {
            let x = self.lane(row.vectors[k / self.lanes], k % self.lanes);
            let from = (behind, (k - done) * matrix.pitch);
            self.add_row(sums.iter_mut().map(|sums| &mut sums[k % SUMS]), x, matrix, from);
        }
    }

    /// So many times `TURNS * SUMS` rows. Where the rows behind them lie.
    fn rounds<const SUMS: usize>(
        &mut self,
        sums: &mut [[Value; SUMS]],
        row: &mut RegisterRow,
        matrix: Matrix<'_>,
        first: Raw,
        rounds: usize,
    ) -> Raw {
        let bytes = |elements: usize| (elements * size_of::<T>()) as i64;
        let elements = match row.copy {
            Some(copy) => copy,
            None => *row.copy.insert(self.stored(&row.vectors)),
        };
        let end = self.function.ins().iadd_imm_u(elements, bytes(rounds * TURNS * SUMS));

        let (round, behind) = (self.function.create_block(), self.function.create_block());
        // What goes to a block is computed in this order: all that one element of the row is for, then the next.
        let carried = |elements: Raw, place: Raw, sums: &[[Value; SUMS]]| -> Vec<BlockArg> {
            let sums = (0..SUMS).flat_map(|part| sums.iter().map(move |sums| sums[part].0));
            [elements, place].into_iter().chain(sums).map(BlockArg::Value).collect()
        };
        self.function.ins().jump(round, &carried(elements, first, sums));
        self.function.switch_to_block(round);
        let elements = self.function.append_block_param(round, self.pointer);
        let place = self.function.append_block_param(round, self.pointer);
        for part in 0..SUMS {
            for sums in sums.iter_mut() {
                sums[part] = Value(self.function.append_block_param(round, self.ty));
            }
        }
        for k in 0..TURNS * SUMS {
            // The copy was written before this loop, where no load of this address can be.
            let one = self.function.ins().load(T::TYPE, unwritten(), elements, bytes(k) as i32);
            let x = Value(if self.lanes == 1 { one } else { self.function.ins().splat(self.ty, one) });
            let sums = sums.iter_mut().map(|sums| &mut sums[k % SUMS]);
            self.add_row(sums, x, matrix, (place, k * matrix.pitch));
        }
        let elements = self.function.ins().iadd_imm_u(elements, bytes(TURNS * SUMS));
        let place = self.function.ins().iadd_imm_u(place, bytes(TURNS * SUMS * matrix.pitch));
        let goes_on = self.function.ins().icmp(IntCC::UnsignedLessThan, elements, end);
        let carried = carried(elements, place, sums);
        self.function.ins().brif(goes_on, round, &carried, behind, &[]);
        self.function.seal_block(round);
        self.function.switch_to_block(behind);
        self.function.seal_block(behind);
        place
    }

    /// Adds an element times a row of the matrix, which lies so many elements behind an address.
    fn add_row<'s>(
        &mut self,
        sums: impl Iterator<Item = &'s mut Value>,
        x: Value,
        matrix: Matrix<'_>,
        (place, behind): (Raw, usize),
    ) {
        for (sum, column) in sums.zip(matrix.columns) {
            let at = ((column + behind) * size_of::<T>()) as i32;
            let y = Value(self.function.ins().load(self.ty, unwritten(), place, at));
            *sum = self.mul_add(y, x, *sum);
        }
    }

    /// Computes values here, and not where they are first used: so what they are made of is needed no longer. (What is stored is
    /// computed; nothing reads it.)
    pub fn compute(&mut self, values: &[Value]) {
        self.stored(values);
    }

    /// Stores vectors in memory that the routine has for itself. Where they lie, one after the other.
    fn stored(&mut self, vectors: &[Value]) -> Raw {
        let lanes = self.lanes;
        let bytes = |vectors: usize| vectors * lanes * size_of::<T>();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes(vectors.len()) as u32, 4);
        let slot = self.function.create_sized_stack_slot(slot);
        let place = self.function.ins().stack_addr(self.pointer, slot, 0);
        for (index, vector) in vectors.iter().enumerate() {
            self.function.ins().store(memory(), vector.0, place, bytes(index) as i32);
        }
        place
    }

    /// The element behind the last that is read.
    fn end_of(&self, matrix: Matrix<'_>) -> usize {
        let last = *matrix.columns.iter().max().expect("a product has columns");
        last + matrix.rows.saturating_sub(1) * matrix.pitch + self.lanes
    }
}

/// Memory that is not written while it may be read. Loads keep their order but for these, which are done where their values are used;
/// else many of them would wait in memory again.
fn unwritten() -> MemFlagsData {
    memory().with_readonly().with_can_move()
}
