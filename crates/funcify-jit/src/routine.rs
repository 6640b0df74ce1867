//! Machine code, the memory that holds it, and the buffers that it accesses.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use cranelift_codegen::ir::{AbiParam, UserFuncName};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Linkage, Module, default_libcall_names};
use ndarray::ArrayViewMut2;
use smallvec::SmallVec;

use crate::builder::Builder;
use crate::error::Error;
use crate::number::{Functions, Number, Reach};

/// A loop compiled to machine code. Several threads may run it concurrently.
pub struct Routine<T> {
    module: ManuallyDrop<JITModule>,
    code: Code,
    reaches: Vec<Reach>,
    number: PhantomData<fn(T)>,
}

/// The signature of a routine's machine code. The arguments are the addresses of the streams, the stride of each stream
/// per iteration in bytes, and the maximum number of iterations. The result is the number of iterations that ran.
type Code = unsafe extern "C" fn(*const *mut u8, *const isize, usize) -> usize;

/// A block of memory that a routine accesses.
pub enum Buffer<'b, T> {
    /// A read-only slice.
    Read(&'b [T]),
    /// A writable slice.
    Write(&'b mut [T]),
    /// A view of some columns of a writable matrix. The rows of the view are called units, and the elements of a unit
    /// must be contiguous.
    Columns(ArrayViewMut2<'b, T>),
}

/// The location of a stream in the first iteration, and its stride per iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The index of the buffer.
    pub buffer: usize,
    /// The index of the unit in the first iteration. Ignored unless the buffer is [`Buffer::Columns`].
    pub unit: usize,
    /// The index of the first element: within the unit for [`Buffer::Columns`], and within the slice for other buffers.
    pub at: usize,
    /// The stride per iteration: in units for [`Buffer::Columns`], and in elements for other buffers.
    pub step: isize,
}

impl<T: Number> Routine<T> {
    /// Compiles the loop that `build` adds to a [`Builder`]. The number of lanes must be 1 or [`Number::LANES`].
    pub fn new(lanes: usize, functions: Functions<T>, build: impl FnOnce(&mut Builder<'_, T>)) -> Result<Self, Error> {
        if lanes != 1 && lanes != T::LANES {
            return Err(Error::Lanes(lanes));
        }
        let mut module = module()?;
        let mut context = module.make_context();
        let signature = &mut context.func.signature;
        let pointer = module.target_config().pointer_type();
        signature.params.extend(vec![AbiParam::new(pointer); 3]);
        signature.returns.push(AbiParam::new(pointer));
        let id = module.declare_function("routine", Linkage::Local, signature).map_err(processor_error)?;
        context.func.name = UserFuncName::user(0, id.as_u32());
        let mut builders = FunctionBuilderContext::new();
        let function = FunctionBuilder::new(&mut context.func, &mut builders);
        let mut builder = Builder::new(function, &module, lanes, functions);
        build(&mut builder);
        let reaches = builder.end(&module);
        module.define_function(id, &mut context).map_err(processor_error)?;
        module.finalize_definitions().map_err(processor_error)?;
        let code = code(&module, id);
        Ok(Routine { module: ManuallyDrop::new(module), code, reaches, number: PhantomData })
    }
}

impl<T> Routine<T> {
    /// Runs at most `times` iterations. `spans` holds the location of each stream, in the order in which the streams
    /// were added. Returns the number of iterations that ran, which is less than `times` if the loop ended early.
    pub fn run(&self, buffers: &mut [Buffer<'_, T>], spans: &[Span], times: usize) -> Result<usize, Error> {
        if spans.len() != self.reaches.len() {
            return Err(Error::Bounds(spans.len().min(self.reaches.len())));
        }
        if times == 0 {
            return Ok(0);
        }
        let mut raw: SmallVec<[RawBuffer; 16]> = buffers.iter_mut().map(RawBuffer::of).collect();
        let (mut places, mut steps) = (SmallVec::<[*mut u8; 32]>::new(), SmallVec::<[isize; 32]>::new());
        for (index, (span, reach)) in spans.iter().zip(&self.reaches).enumerate() {
            let raw = raw.get_mut(span.buffer).ok_or(Error::Bounds(index))?;
            let (place, step) = raw.place::<T>(span, reach, times).ok_or(Error::Bounds(index))?;
            places.push(place);
            steps.push(step);
        }
        // SAFETY: the code runs at most `times` iterations. In each iteration, it accesses up to `reach.elements`
        // elements from the current address of each stream, which advances by the stream's step. It writes only to
        // streams whose `reach.is_written` is `true`. `RawBuffer::place` has checked that all of these elements are
        // within the buffers, and that buffers being written are borrowed mutably. The borrows last until the code
        // returns. The addresses come from those borrows, and no buffer is accessed here in the meantime. Every bit
        // pattern is a valid element.
        #[allow(unsafe_code, reason = "calls machine code")]
        let ran = unsafe { (self.code)(places.as_ptr(), steps.as_ptr(), times) };
        Ok(ran)
    }
}

/// The raw address of a buffer, and its dimensions.
struct RawBuffer {
    start: *mut u8,
    /// The number of units, the number of columns per unit, and the stride between units in elements. A slice is a
    /// single unit.
    units: usize,
    columns: usize,
    pitch: isize,
    is_columns: bool,
    may_be_written: bool,
}

impl RawBuffer {
    fn of<T>(buffer: &mut Buffer<'_, T>) -> Self {
        let (start, columns, may_be_written) = match buffer {
            Buffer::Read(data) => (data.as_ptr().cast_mut(), data.len(), false),
            Buffer::Write(data) => (data.as_mut_ptr(), data.len(), true),
            Buffer::Columns(array) => {
                let (units, columns) = array.dim();
                let [pitch, side] = [array.strides()[0], array.strides()[1]];
                // If the columns are not contiguous, set their number to 0, so that every access is out of bounds.
                let columns = if side == 1 || columns <= 1 { columns } else { 0 };
                let start = array.as_mut_ptr().cast();
                return RawBuffer { start, units, columns, pitch, is_columns: true, may_be_written: true };
            }
        };
        RawBuffer { start: start.cast(), units: 1, columns, pitch: 0, is_columns: false, may_be_written }
    }

    /// Returns the initial address of a stream and its stride in bytes. Returns `None` if the stream would access an
    /// element outside the buffer, or write to a read-only buffer.
    fn place<T>(&mut self, span: &Span, reach: &Reach, times: usize) -> Option<(*mut u8, isize)> {
        let size = size_of::<T>() as isize;
        let further = span.step.checked_mul(isize::try_from(times - 1).ok()?)?;
        let last = |first: usize| first.checked_add_signed(further);
        let (unit, at, step) = if self.is_columns {
            (span.unit, span.at, span.step.checked_mul(self.pitch)?)
        } else {
            (0, span.at, span.step)
        };
        let [units, ats] = if self.is_columns { [[unit, last(unit)?], [at, at]] } else { [[0, 0], [at, last(at)?]] };
        let is_within = units.iter().all(|unit| *unit < self.units)
            && ats.iter().all(|at| at.checked_add(reach.elements).is_some_and(|end| end <= self.columns));
        if !is_within || (reach.is_written && !self.may_be_written) {
            return None;
        }
        let first = isize::try_from(unit).ok()?.checked_mul(self.pitch)?.checked_add_unsigned(at)?;
        Some((self.start.wrapping_offset(first.checked_mul(size)?), step.checked_mul(size)?))
    }
}

/// Creates a Cranelift module for this processor.
fn module() -> Result<JITModule, Error> {
    let mut flags = settings::builder();
    for (flag, value) in [("use_colocated_libcalls", "false"), ("is_pic", "false"), ("opt_level", "speed")] {
        flags.set(flag, value).map_err(processor_error)?;
    }
    let isa = cranelift_native::builder()
        .map_err(processor_error)?
        .finish(settings::Flags::new(flags))
        .map_err(processor_error)?;
    Ok(JITModule::new(JITBuilder::with_isa(isa, default_libcall_names())))
}

fn processor_error(error: impl fmt::Display) -> Error {
    Error::Processor(error.to_string())
}

/// Returns a pointer to a compiled function.
fn code(module: &JITModule, id: FuncId) -> Code {
    let address = module.get_finalized_function(id);
    // SAFETY: the function was compiled with this signature. It stays at this address until the module's memory is
    // freed, when the routine is dropped.
    #[allow(unsafe_code, reason = "turns an address into a function")]
    unsafe {
        std::mem::transmute::<*const u8, Code>(address)
    }
}

impl<T> Drop for Routine<T> {
    fn drop(&mut self) {
        // SAFETY: the routine is being dropped, so no thread is running it or holds the address of its code. The module
        // is not used again.
        #[allow(unsafe_code, reason = "frees the machine code")]
        unsafe {
            ManuallyDrop::take(&mut self.module).free_memory();
        }
    }
}

// SAFETY: the module is not accessed until the routine is dropped, and its code has no mutable state.
#[allow(unsafe_code, reason = "the module only owns the memory of the code")]
unsafe impl<T> Sync for Routine<T> {}

impl<T> fmt::Debug for Routine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routine").field("reaches", &self.reaches).finish_non_exhaustive()
    }
}
