//! Builds a loop operation by operation: the code before the loop, the body, and the stores after the loop.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{self, AbiParam, Block, InstBuilder, MemFlagsData, StackSlot, Type, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_module::Module;

use crate::number::{Functions, Number, Reach};

/// An SSA value that is a vector of numbers.
#[derive(Clone, Copy, Debug)]
pub struct Value(pub(crate) ir::Value);

/// A mutable vector variable that keeps its value between iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Register(Variable);

/// A pointer into a buffer. The pointer advances by a fixed stride, which may be 0, after each iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream(usize);

/// A builder for the loop of a routine. Streams, and loads that run once, must be added before
/// [`begin`](Builder::begin). The operations of an iteration must be added after that call.
///
/// All vectors have the routine's number of lanes. A load of a single element broadcasts the element to all lanes. Any
/// other load of fewer elements than lanes sets the remaining lanes to zero.
pub struct Builder<'f, T: Number> {
    pub(crate) function: FunctionBuilder<'f>,
    /// The type of an address.
    pub(crate) pointer: Type,
    /// The type of a vector.
    pub(crate) ty: Type,
    pub(crate) lanes: usize,
    pub(crate) functions: Functions<T>,
    /// The signatures of the callbacks with one operand and with two operands.
    pub(crate) signatures: [ir::SigRef; 2],
    /// The stack slots that pass vector operands to callbacks.
    pub(crate) slots: Option<[StackSlot; 2]>,
    /// The routine's arguments: the addresses of the streams, their strides in bytes, and the maximum number of
    /// iterations.
    arguments: [ir::Value; 3],
    places: Vec<Variable>,
    reaches: Vec<Reach>,
    ran: Variable,
    body: Option<Block>,
    exit: Block,
    /// The registers to store after the last iteration, each with its stream, its offset, and the number of elements.
    stored_after_loop: Vec<(Register, Stream, usize, usize)>,
}

/// Returns the flags for memory accesses. Accesses may be unaligned. They cannot trap, because bounds are checked
/// before the routine runs.
pub(crate) fn memory() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl<'f, T: Number> Builder<'f, T> {
    pub(crate) fn new(
        mut function: FunctionBuilder<'f>,
        module: &impl Module,
        lanes: usize,
        functions: Functions<T>,
    ) -> Self {
        let pointer = module.target_config().pointer_type();
        let ty = T::TYPE.by(lanes as u32).expect("checked by `Routine::new`: a vector has 1 lane or 16 bytes");
        let signatures = [1, 2].map(|operands| {
            let mut signature = module.make_signature();
            signature.params.push(AbiParam::new(types::I32));
            let operand = AbiParam::new(if lanes == 1 { ty } else { pointer });
            signature.params.extend(vec![operand; operands]);
            if lanes == 1 {
                signature.returns.push(operand);
            }
            function.import_signature(signature)
        });
        let start = function.create_block();
        function.append_block_params_for_function_params(start);
        function.switch_to_block(start);
        function.seal_block(start);
        let arguments = [0, 1, 2].map(|index| function.block_params(start)[index]);
        let ran = function.declare_var(pointer);
        let none = function.ins().iconst(pointer, 0);
        function.def_var(ran, none);
        let exit = function.create_block();
        Builder {
            function,
            pointer,
            ty,
            lanes,
            functions,
            signatures,
            slots: None,
            arguments,
            places: Vec::new(),
            reaches: Vec::new(),
            ran,
            body: None,
            exit,
            stored_after_loop: Vec::new(),
        }
    }

    /// Returns the number of lanes of all vectors.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Adds a stream. This method must be called before [`begin`](Builder::begin).
    pub fn stream(&mut self) -> Stream {
        let index = self.places.len();
        let place = self.function.declare_var(self.pointer);
        let first = self.function.ins().load(self.pointer, memory(), self.arguments[0], entry(index));
        self.function.def_var(place, first);
        self.places.push(place);
        self.reaches.push(Reach::default());
        Stream(index)
    }

    /// Adds a register with the initial value `value`. This method must be called before [`begin`](Builder::begin).
    pub fn register(&mut self, value: Value) -> Register {
        let register = Register(self.function.declare_var(self.ty));
        self.set(register, value);
        register
    }

    /// Begins the body of the loop. Operations that are added after this call run in each iteration.
    pub fn begin(&mut self) {
        let body = self.function.create_block();
        self.function.ins().jump(body, &[]);
        self.function.switch_to_block(body);
        self.body = Some(body);
    }

    /// Returns the current value of a register.
    pub fn get(&mut self, register: Register) -> Value {
        Value(self.function.use_var(register.0))
    }

    /// Sets the value of a register.
    pub fn set(&mut self, register: Register, value: Value) {
        self.function.def_var(register.0, value.0);
    }

    /// Loads `len` elements, starting `at` elements after the stream's current address. `len` must not exceed the
    /// number of lanes.
    pub fn load(&mut self, stream: Stream, at: usize, len: usize) -> Value {
        let place = self.stream_address(stream, at + len, false);
        let element = |index: usize| ((at + index) * size_of::<T>()) as i32;
        if len == self.lanes {
            return Value(self.function.ins().load(self.ty, memory(), place, element(0)));
        }
        if len == 1 {
            let one = self.function.ins().load(T::TYPE, memory(), place, element(0));
            return Value(self.function.ins().splat(self.ty, one));
        }
        let mut vector = self.number(T::from(0)).0;
        for index in 0..len {
            let one = self.function.ins().load(T::TYPE, memory(), place, element(index));
            vector = self.function.ins().insertlane(vector, one, index as u8);
        }
        Value(vector)
    }

    /// Stores the first `len` elements of a value, starting `at` elements after the stream's current address.
    pub fn store(&mut self, value: Value, stream: Stream, at: usize, len: usize) {
        let place = self.stream_address(stream, at + len, true);
        let element = |index: usize| ((at + index) * size_of::<T>()) as i32;
        if len == self.lanes {
            self.function.ins().store(memory(), value.0, place, element(0));
            return;
        }
        for index in 0..len {
            let one = self.function.ins().extractlane(value.0, index as u8);
            self.function.ins().store(memory(), one, place, element(index));
        }
    }

    /// Stores the first `len` elements of a register after the loop has ended, starting `at` elements after the address
    /// that the stream has at that time.
    pub fn store_after_loop(&mut self, register: Register, stream: Stream, at: usize, len: usize) {
        self.stored_after_loop.push((register, stream, at, len));
    }

    /// Emits a branch that leaves the loop at this point if the first lane of `value` is 0.
    pub fn end_unless(&mut self, value: Value) {
        let holds = self.is_not_zero(value);
        let further = self.function.create_block();
        self.function.ins().brif(holds, further, &[], self.exit, &[]);
        self.function.switch_to_block(further);
        self.function.seal_block(further);
    }

    /// Broadcasts `number` to all lanes of a vector.
    pub fn number(&mut self, number: T) -> Value {
        let one = number.constant(&mut self.function);
        Value(if self.lanes == 1 { one } else { self.function.ins().splat(self.ty, one) })
    }

    /// Emits a test that is true if the first lane of a value is nonzero.
    pub(crate) fn is_not_zero(&mut self, value: Value) -> ir::Value {
        let first = if self.lanes == 1 { value.0 } else { self.function.ins().extractlane(value.0, 0) };
        let zero = T::from(0).constant(&mut self.function);
        self.function.ins().fcmp(FloatCC::NotEqual, first, zero)
    }

    /// Returns the current address of a stream. Records that up to `end` elements from this address may be accessed,
    /// and may be written if `is_written` is set.
    pub(crate) fn stream_address(&mut self, stream: Stream, end: usize, is_written: bool) -> ir::Value {
        let reach = &mut self.reaches[stream.0];
        reach.elements = reach.elements.max(end);
        reach.is_written |= is_written;
        self.function.use_var(self.places[stream.0])
    }

    /// Emits the end of the loop and the stores after it. Returns the range of elements that each stream may access.
    pub(crate) fn end(mut self, module: &impl Module) -> Vec<Reach> {
        let [_, steps, times] = self.arguments;
        if let Some(body) = self.body {
            for index in 0..self.places.len() {
                let place = self.function.use_var(self.places[index]);
                let step = self.function.ins().load(self.pointer, memory(), steps, entry(index));
                let next = self.function.ins().iadd(place, step);
                self.function.def_var(self.places[index], next);
            }
            let ran = self.function.use_var(self.ran);
            let ran = self.function.ins().iadd_imm_u(ran, 1);
            self.function.def_var(self.ran, ran);
            let goes_on = self.function.ins().icmp(IntCC::UnsignedLessThan, ran, times);
            self.function.ins().brif(goes_on, body, &[], self.exit, &[]);
            self.function.seal_block(body);
        } else {
            self.function.ins().jump(self.exit, &[]);
        }
        self.function.switch_to_block(self.exit);
        self.function.seal_block(self.exit);
        for (register, stream, at, len) in std::mem::take(&mut self.stored_after_loop) {
            let value = self.get(register);
            self.store(value, stream, at, len);
        }
        let ran = self.function.use_var(self.ran);
        self.function.ins().return_(&[ran]);
        self.function.finalize(module.target_config());
        self.reaches
    }
}

/// Returns the byte offset of a stream's entry in the arrays of addresses and strides.
fn entry(index: usize) -> i32 {
    (index * size_of::<usize>()) as i32
}
