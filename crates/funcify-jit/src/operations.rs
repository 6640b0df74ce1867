//! Lane-wise operations on vectors.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{self, Endianness, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, types};
use cranelift_frontend::FuncInstBuilder;

use crate::builder::{Builder, Value, memory};
use crate::number::Number;

/// A vector of booleans.
#[derive(Clone, Copy, Debug)]
pub struct Mask(ir::Value);

/// The bits of a vector of numbers, as unsigned integers.
#[derive(Clone, Copy, Debug)]
pub struct Bits(ir::Value);

/// A comparison. If an operand is NaN, `NotEqual` is true and all other comparisons are false.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// x < y.
    Less,
    /// x <= y.
    LessEqual,
    /// x == y.
    Equal,
    /// x != y.
    NotEqual,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($operand:ident),*) = $instruction:ident;)*) => {
        impl<T: Number> Builder<'_, T> {
            $(
                $(#[$doc])*
                pub fn $name(&mut self, $($operand: Value),*) -> Value {
                    Value(self.function.ins().$instruction($($operand.0),*))
                }
            )*
        }
    };
}

operations! {
    /// Flips the sign bit, even if the number is NaN.
    neg(x) = fneg;
    /// Clears the sign bit, even if the number is NaN.
    abs(x) = fabs;
    /// Returns the square root, or NaN for negative numbers.
    sqrt(x) = sqrt;
    /// Returns x + y.
    add(x, y) = fadd;
    /// Returns x - y.
    sub(x, y) = fsub;
    /// Returns x * y.
    mul(x, y) = fmul;
    /// Returns x / y.
    div(x, y) = fdiv;
    /// Returns x * y + z, with a single rounding.
    mul_add(x, y, z) = fma;
}

impl<T: Number> Builder<'_, T> {
    /// Returns 1 in lanes where the comparison holds, and 0 elsewhere.
    pub fn compare(&mut self, comparison: Comparison, x: Value, y: Value) -> Value {
        let (one, zero) = (self.number(T::from(1)), self.number(T::from(0)));
        let mask = self.mask(comparison, x, y);
        self.choose(mask, one, zero)
    }

    /// Returns `yes` in lanes where `value` is nonzero, and `no` elsewhere.
    pub fn select(&mut self, value: Value, yes: Value, no: Value) -> Value {
        let zero = self.number(T::from(0));
        let mask = self.mask(Comparison::NotEqual, value, zero);
        self.choose(mask, yes, no)
    }

    /// Returns the larger value, or NaN if either is NaN. -0 is less than +0.
    pub fn max(&mut self, x: Value, y: Value) -> Value {
        let is_less = self.mask(Comparison::Less, y, x);
        let larger = self.choose(is_less, x, y);
        let is_number = self.mask(Comparison::Equal, x, x);
        let larger = self.choose(is_number, larger, x);
        // If both values are zeros, `larger` is `y`. The bitwise AND clears the sign bit of `y` unless the sign bit of
        // `x` is also set.
        let rest = self.word((1 << (self.words().lane_bits() - 1)) - 1);
        let rest = self.of_bits(rest);
        let sign = self.bitwise(x, rest, |ins, x, rest| ins.bor(x, rest));
        self.bitwise(larger, sign, |ins, larger, sign| ins.band(larger, sign))
    }

    /// Returns the smaller value, or NaN if either is NaN. -0 is less than +0.
    pub fn min(&mut self, x: Value, y: Value) -> Value {
        // `first` and `second` differ only for zeros and NaN. For two zeros, the combined bits are -0 if either zero is
        // -0, as required. If either value is NaN, the combined bits are NaN.
        let (x_is_less, y_is_less) = (self.mask(Comparison::Less, x, y), self.mask(Comparison::Less, y, x));
        let (first, second) = (self.choose(x_is_less, x, y), self.choose(y_is_less, y, x));
        self.bitwise(first, second, |ins, first, second| ins.bor(first, second))
    }

    /// Applies an op to the bits of two values. For vectors, and on x86-64 also for scalars, the op works directly on
    /// floating-point registers. Otherwise, the code moves the bits to integer registers and back.
    fn bitwise(
        &mut self,
        x: Value,
        y: Value,
        op: impl FnOnce(FuncInstBuilder<'_, '_>, ir::Value, ir::Value) -> ir::Value,
    ) -> Value {
        if self.lanes > 1 || cfg!(target_arch = "x86_64") {
            return Value(op(self.function.ins(), x.0, y.0));
        }
        let (Bits(x), Bits(y)) = (self.bits(x), self.bits(y));
        let bits = op(self.function.ins(), x, y);
        self.of_bits(Bits(bits))
    }

    /// Broadcasts lane `lane` of a value to all lanes.
    pub fn lane(&mut self, value: Value, lane: usize) -> Value {
        if self.lanes == 1 {
            return value;
        }
        let one = self.function.ins().extractlane(value.0, lane as u8);
        Value(self.function.ins().splat(self.ty, one))
    }

    /// Calls the routine's callback for functions of one operand (see [`Functions`](crate::Functions)). `which` selects
    /// the function to compute.
    pub fn call_unary(&mut self, which: u32, x: Value) -> Value {
        let address = self.functions.unary_address(self.lanes);
        self.call_address(address, which, &[x])
    }

    /// Calls the routine's callback for functions of two operands (see [`Functions`](crate::Functions)). `which`
    /// selects the function to compute.
    pub fn call_binary(&mut self, which: u32, x: Value, y: Value) -> Value {
        let address = self.functions.binary_address(self.lanes);
        self.call_address(address, which, &[x, y])
    }

    fn call_address(&mut self, address: usize, which: u32, operands: &[Value]) -> Value {
        let which = self.function.ins().iconst(types::I32, i64::from(which));
        let address = self.function.ins().iconst(self.pointer, address as i64);
        let signature = self.signatures[operands.len() - 1];
        let mut arguments = vec![which];
        if self.lanes == 1 {
            arguments.extend(operands.iter().map(|operand| operand.0));
            let call = self.function.ins().call_indirect(signature, address, &arguments);
            return Value(self.function.inst_results(call)[0]);
        }
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 4);
        let function = &mut self.function;
        let slots = *self.slots.get_or_insert_with(|| [0, 1].map(|_| function.create_sized_stack_slot(slot.clone())));
        for (operand, slot) in operands.iter().zip(slots) {
            let place = self.function.ins().stack_addr(self.pointer, slot, 0);
            self.function.ins().store(memory(), operand.0, place, 0);
            arguments.push(place);
        }
        self.function.ins().call_indirect(signature, address, &arguments);
        Value(self.function.ins().load(self.ty, memory(), arguments[1], 0))
    }

    /// Returns a mask that is true in lanes where the comparison holds.
    pub fn mask(&mut self, comparison: Comparison, x: Value, y: Value) -> Mask {
        let condition = match comparison {
            Comparison::Less => FloatCC::LessThan,
            Comparison::LessEqual => FloatCC::LessThanOrEqual,
            Comparison::Equal => FloatCC::Equal,
            Comparison::NotEqual => FloatCC::NotEqual,
        };
        Mask(self.function.ins().fcmp(condition, x.0, y.0))
    }

    /// Returns `yes` in lanes where the mask is true, and `no` elsewhere.
    pub fn choose(&mut self, Mask(mask): Mask, yes: Value, no: Value) -> Value {
        if self.lanes == 1 {
            return Value(self.function.ins().select(mask, yes.0, no.0));
        }
        let mask = self.cast(self.ty, mask);
        Value(self.function.ins().bitselect(mask, yes.0, no.0))
    }

    /// Reinterprets numbers as integers of the same width (a bitcast).
    pub fn bits(&mut self, x: Value) -> Bits {
        let words = self.words();
        Bits(self.cast(words, x.0))
    }

    /// Reinterprets integers as numbers of the same width (a bitcast).
    pub fn of_bits(&mut self, bits: Bits) -> Value {
        Value(self.cast(self.ty, bits.0))
    }

    /// Broadcasts `word` to all lanes of a vector of integers. Each integer has the same width as a number.
    pub fn word(&mut self, word: u64) -> Bits {
        let words = self.words();
        // Cranelift requires 32-bit constants to be zero-extended.
        let word = if words.lane_bits() == 32 { i64::from(word as u32) } else { word as i64 };
        let one = self.function.ins().iconst(words.lane_type(), word);
        Bits(if self.lanes == 1 { one } else { self.function.ins().splat(words, one) })
    }

    /// Returns a & b.
    pub fn and(&mut self, a: Bits, b: Bits) -> Bits {
        Bits(self.function.ins().band(a.0, b.0))
    }

    /// Returns a | b.
    pub fn or(&mut self, a: Bits, b: Bits) -> Bits {
        Bits(self.function.ins().bor(a.0, b.0))
    }

    /// Returns a + b, wrapping on overflow.
    pub fn add_words(&mut self, a: Bits, b: Bits) -> Bits {
        Bits(self.function.ins().iadd(a.0, b.0))
    }

    /// Shifts the bits left by `places`, which must be less than the width of a word.
    pub fn shift_up(&mut self, a: Bits, places: u32) -> Bits {
        let places = self.function.ins().iconst(types::I32, i64::from(places));
        Bits(self.function.ins().ishl(a.0, places))
    }

    /// Shifts the bits right by `places`, which must be less than the width of a word, and fills with zeros.
    pub fn shift_down(&mut self, a: Bits, places: u32) -> Bits {
        let places = self.function.ins().iconst(types::I32, i64::from(places));
        Bits(self.function.ins().ushr(a.0, places))
    }

    /// Returns the Cranelift type of [`Bits`].
    fn words(&self) -> ir::Type {
        self.ty.as_int()
    }

    fn cast(&mut self, ty: ir::Type, value: ir::Value) -> ir::Value {
        let flags = MemFlagsData::new().with_endianness(Endianness::Little);
        self.function.ins().bitcast(ty, flags, value)
    }
}
