//! Multiplies a row by a matrix, in a loop inside the body of the routine's loop.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, Value as IrValue};

use crate::builder::{Builder, Stream, Value, memory};
use crate::number::Number;

/// A matrix at the current address of a stream. The routine must not write to it.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'m> {
    /// The stream whose current address is the address of the matrix's first element.
    pub stream: Stream,
    /// The number of rows.
    pub rows: usize,
    /// The stride between rows, in elements.
    pub pitch: usize,
    /// The groups of columns to multiply. Each group fills one vector, and is given by its offset from the start of a
    /// row, in elements.
    pub columns: &'m [usize],
}

/// A row of elements held in vectors.
#[derive(Clone, Debug)]
pub struct RegisterRow {
    vectors: Vec<Value>,
    /// The address of a copy of the row in memory, or `None` if no product has stored one yet.
    copy: Option<IrValue>,
}

impl RegisterRow {
    /// Creates a row from the vectors that hold its elements, in order.
    pub fn new(vectors: Vec<Value>) -> Self {
        RegisterRow { vectors, copy: None }
    }
}

/// The number of matrix rows that each iteration of the inner loop accumulates into each partial sum.
const UNROLL: usize = 2;

impl<T: Number> Builder<'_, T> {
    /// Adds the product of a row and a matrix to partial sums: `sums[v][k % SUMS] += row[k] * matrix[k][v]` for each
    /// row `k` of the matrix, in order, and each group `v` of columns.
    ///
    /// The sums and one element of the row should fit in the processor's vector registers. Some processors have only 16
    /// vector registers.
    ///
    /// # Panics
    ///
    /// Panics if the row has fewer elements than the matrix has rows.
    pub fn add_products<const SUMS: usize>(
        &mut self,
        sums: &mut [[Value; SUMS]],
        row: &mut RegisterRow,
        matrix: Matrix<'_>,
    ) {
        let len = row.vectors.len() * self.lanes;
        assert!(matrix.rows <= len, "a row of {len} elements for a matrix of {} rows", matrix.rows);
        let first = self.stream_address(matrix.stream, self.end_of(matrix), false);
        let rounds = matrix.rows / (UNROLL * SUMS);
        let behind = if rounds == 0 { first } else { self.add_rounds(sums, row, matrix, first, rounds) };
        let done = rounds * UNROLL * SUMS;
        for k in done..matrix.rows {
            let x = self.lane(row.vectors[k / self.lanes], k % self.lanes);
            let from = (behind, (k - done) * matrix.pitch);
            self.add_row(sums.iter_mut().map(|sums| &mut sums[k % SUMS]), x, matrix, from);
        }
    }

    /// Emits a loop of `rounds` iterations, each of which processes `UNROLL * SUMS` rows of the matrix. Returns the
    /// address of the first row that the loop does not process.
    fn add_rounds<const SUMS: usize>(
        &mut self,
        sums: &mut [[Value; SUMS]],
        row: &mut RegisterRow,
        matrix: Matrix<'_>,
        first: IrValue,
        rounds: usize,
    ) -> IrValue {
        let bytes = |elements: usize| (elements * size_of::<T>()) as i64;
        let elements = match row.copy {
            Some(copy) => copy,
            None => *row.copy.insert(self.store_in_stack(&row.vectors)),
        };
        let end = self.function.ins().iadd_imm_u(elements, bytes(rounds * UNROLL * SUMS));

        let (round, behind) = (self.function.create_block(), self.function.create_block());
        // Cranelift computes block arguments in order, so keep the sums that use the same elements of the row next to
        // each other.
        let carried = |elements: IrValue, place: IrValue, sums: &[[Value; SUMS]]| -> Vec<BlockArg> {
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
        for k in 0..UNROLL * SUMS {
            // Cranelift may move this read-only load, but not out of the loop, because its address changes in each
            // iteration. The load therefore stays after the stores to the copy of the row.
            let one = self.function.ins().load(T::TYPE, read_only(), elements, bytes(k) as i32);
            let x = Value(if self.lanes == 1 { one } else { self.function.ins().splat(self.ty, one) });
            let sums = sums.iter_mut().map(|sums| &mut sums[k % SUMS]);
            self.add_row(sums, x, matrix, (place, k * matrix.pitch));
        }
        let elements = self.function.ins().iadd_imm_u(elements, bytes(UNROLL * SUMS));
        let place = self.function.ins().iadd_imm_u(place, bytes(UNROLL * SUMS * matrix.pitch));
        let goes_on = self.function.ins().icmp(IntCC::UnsignedLessThan, elements, end);
        let carried = carried(elements, place, sums);
        self.function.ins().brif(goes_on, round, &carried, behind, &[]);
        self.function.seal_block(round);
        self.function.switch_to_block(behind);
        self.function.seal_block(behind);
        place
    }

    /// Adds the product of the element `x` and a row of the matrix to the sums. The row starts `behind` elements after
    /// the address `place`.
    fn add_row<'s>(
        &mut self,
        sums: impl Iterator<Item = &'s mut Value>,
        x: Value,
        matrix: Matrix<'_>,
        (place, behind): (IrValue, usize),
    ) {
        for (sum, column) in sums.zip(matrix.columns) {
            let at = ((column + behind) * size_of::<T>()) as i32;
            let y = Value(self.function.ins().load(self.ty, read_only(), place, at));
            *sum = self.mul_add(y, x, *sum);
        }
    }

    /// Forces values to be computed at this point instead of at their first use, by storing them in memory that is
    /// never read. The registers of their operands can then be reused.
    pub fn compute(&mut self, values: &[Value]) {
        self.store_in_stack(values);
    }

    /// Stores vectors contiguously in a stack slot, and returns its address.
    fn store_in_stack(&mut self, vectors: &[Value]) -> IrValue {
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

    /// Returns the offset, in elements, from the stream's address to the end of the matrix.
    fn end_of(&self, matrix: Matrix<'_>) -> usize {
        let last = *matrix.columns.iter().max().expect("the caller passes at least one column");
        last + matrix.rows.saturating_sub(1) * matrix.pitch + self.lanes
    }
}

/// Returns the flags for loads from memory that does not change until the loaded values are used. Cranelift may move
/// such a load to the first use of its value, which reduces spilling. It does not reorder other loads.
fn read_only() -> MemFlagsData {
    memory().with_readonly().with_can_move()
}
