//! Compiled programs and loops that read slices and return vectors, for any backend whose tensors are in host memory.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use funcify_analysis::greatest_integer;
use funcify_body::Type;
use funcify_body::integer::{Element as BodyElement, Integer};
use funcify_core::cancel::{ActiveHandles, Progress, free_on_another_thread};
use funcify_core::error::{BackendError, Place, Site};
use funcify_core::{DType, HostTensor, Scalar};
use funcify_runtime::{Declined, Outcome, WholeRequest};
use pulp::bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use crate::plan::{PlanError, Storage};
use crate::planner::{Division, GraphPlan, plan_graph};
use crate::proof::{self, Subject};
use crate::run::{Element, Executor, Programs, Slice, SliceMut};
use funcify_body::machine::Machine;

/// A program or a loop that is compiled for the sizes of its operands. Several threads may call it concurrently.
///
/// All floats have the same element type, [`dtype`](Engine::dtype): the widest float type of the program, and at least
/// f32. Narrower floats are converted to this type exactly, and booleans to 1 and 0. Integers are either converted to
/// this type exactly, or keep their own type.
pub struct Engine {
    plan: GraphPlan,
    executors: AnyExecutors,
}

/// The elements of an operand or result, in row-major order.
#[derive(Clone, PartialEq, Debug)]
pub enum Elements<'a> {
    /// Elements that an f32 engine holds as floats.
    F32(Cow<'a, [f32]>),
    /// Elements that an f64 engine holds as floats.
    F64(Cow<'a, [f64]>),
    /// The elements of an `i64` operand or result that is not held as floats.
    I64(Cow<'a, [i64]>),
    /// The elements of an `i32` operand or result that is not held as floats.
    I32(Cow<'a, [i32]>),
    /// The elements of a `u32` operand or result that is not held as floats.
    U32(Cow<'a, [u32]>),
    /// The elements of a `u8` operand or result that is not held as floats.
    U8(Cow<'a, [u8]>),
}

impl Elements<'static> {
    /// A placeholder for an operand that the engine does not read.
    pub const NONE: Self = Elements::F32(Cow::Borrowed(&[]));

    /// Converts numbers to elements for an engine whose element type is `dtype`.
    pub fn of_numbers(numbers: impl Iterator<Item = f64>, dtype: DType) -> Self {
        match dtype {
            DType::F64 => Elements::F64(numbers.collect()),
            _ => Elements::F32(numbers.map(|number| number as f32).collect()),
        }
    }

    /// Converts integers to floats of type `dtype`. Returns `None` unless all integers are between `-greatest` and
    /// `greatest`.
    fn holding<I: Integer>(integers: &[I], greatest: i64, dtype: DType) -> Option<Self> {
        let are_held = integers.iter().all(|integer| (-greatest..=greatest).contains(&integer.to_i64()));
        are_held.then(|| match dtype {
            DType::F64 => Elements::F64(integers.iter().map(|integer| integer.to_float()).collect()),
            _ => Elements::F32(integers.iter().map(|integer| integer.to_float()).collect()),
        })
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        match self {
            Elements::F32(_) => DType::F32,
            Elements::F64(_) => DType::F64,
            Elements::I64(_) => DType::I64,
            Elements::I32(_) => DType::I32,
            Elements::U32(_) => DType::U32,
            Elements::U8(_) => DType::U8,
        }
    }

    /// Allocates `count` zeros of type `ty`. `float` is the float type of the engine.
    fn zeros(ty: Type, float: DType, count: usize) -> Elements<'static> {
        match ty {
            Type::Float if float == DType::F64 => Elements::F64(vec![0.0; count].into()),
            Type::Float => Elements::F32(vec![0.0; count].into()),
            Type::I64 => Elements::I64(vec![0; count].into()),
            Type::I32 => Elements::I32(vec![0; count].into()),
            Type::U32 => Elements::U32(vec![0; count].into()),
            Type::U8 | Type::Mask => Elements::U8(vec![0; count].into()),
        }
    }

    /// Frees the elements in pieces, because the operating system blocks other threads while it frees a large
    /// allocation.
    fn free(self) {
        match self {
            Elements::F32(numbers) => free_in_pieces(numbers.into_owned()),
            Elements::F64(numbers) => free_in_pieces(numbers.into_owned()),
            Elements::I64(integers) => free_in_pieces(integers.into_owned()),
            Elements::I32(integers) => free_in_pieces(integers.into_owned()),
            Elements::U32(integers) => free_in_pieces(integers.into_owned()),
            Elements::U8(integers) => free_in_pieces(integers.into_owned()),
        }
    }
}

impl<'a> Elements<'a> {
    /// Borrows the elements of a tensor of integers as integers. Returns `None` for floats and booleans.
    fn of_integers(tensor: &'a HostTensor) -> Option<Self> {
        Some(match tensor.dtype() {
            DType::I64 => Elements::I64(tensor.as_slice()?.into()),
            DType::I32 => Elements::I32(tensor.as_slice()?.into()),
            DType::U32 => Elements::U32(tensor.as_slice()?.into()),
            DType::U8 => Elements::U8(tensor.as_slice()?.into()),
            _ => return None,
        })
    }

    /// Borrows the elements of a tensor of floats. Returns `None` unless their type is `dtype`.
    fn of_floats(tensor: &'a HostTensor, dtype: DType) -> Option<Self> {
        match dtype {
            DType::F64 => tensor.as_slice().map(|numbers| Elements::F64(Cow::Borrowed(numbers))),
            _ => tensor.as_slice().map(|numbers| Elements::F32(Cow::Borrowed(numbers))),
        }
    }

    /// Copies the elements if they are borrowed.
    pub fn into_owned(self) -> Elements<'static> {
        match self {
            Elements::F32(numbers) => Elements::F32(numbers.into_owned().into()),
            Elements::F64(numbers) => Elements::F64(numbers.into_owned().into()),
            Elements::I64(integers) => Elements::I64(integers.into_owned().into()),
            Elements::I32(integers) => Elements::I32(integers.into_owned().into()),
            Elements::U32(integers) => Elements::U32(integers.into_owned().into()),
            Elements::U8(integers) => Elements::U8(integers.into_owned().into()),
        }
    }

    /// Returns the elements as bytes if they are integers, or `None` if they are floats.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Elements::F32(_) | Elements::F64(_) => None,
            Elements::I64(integers) => Some(cast_slice(integers)),
            Elements::I32(integers) => Some(cast_slice(integers)),
            Elements::U32(integers) => Some(cast_slice(integers)),
            Elements::U8(integers) => Some(integers),
        }
    }

    /// Returns the elements as an input of a plan whose floats have type `T`, or `None` if they are floats of another
    /// type.
    fn as_input<T: Number>(&self) -> Option<Slice<'_, T>> {
        self.bytes().map(Slice::Bytes).or_else(|| T::slice(self).map(Slice::Float))
    }

    /// Returns the elements as an output of a plan whose floats have type `T`, or `None` if they are floats of another
    /// type.
    fn as_output<T: Number>(&mut self) -> Option<SliceMut<'_, T>> {
        match self {
            Elements::I64(integers) => Some(SliceMut::Bytes(cast_slice_mut(integers.to_mut()))),
            Elements::I32(integers) => Some(SliceMut::Bytes(cast_slice_mut(integers.to_mut()))),
            Elements::U32(integers) => Some(SliceMut::Bytes(cast_slice_mut(integers.to_mut()))),
            Elements::U8(integers) => Some(SliceMut::Bytes(integers.to_mut())),
            Elements::F32(_) | Elements::F64(_) => T::slice_mut(self).map(SliceMut::Float),
        }
    }

    /// Converts the elements, which must be floats or `u8`, to a tensor library's booleans: `true` for each element
    /// that is not 0.
    pub fn to_bools<B: From<bool>>(&self) -> Vec<B> {
        match self {
            Elements::F32(numbers) => numbers.iter().map(|number| B::from(*number != 0.0)).collect(),
            Elements::F64(numbers) => numbers.iter().map(|number| B::from(*number != 0.0)).collect(),
            integers => integers.bytes().unwrap_or_default().iter().map(|byte| B::from(*byte != 0)).collect(),
        }
    }
}

/// The executors of an engine, for either float type.
pub enum AnyExecutors {
    F32(Executors<f32>),
    F64(Executors<f64>),
}

/// A plan's constants, and a pool of its executors. The pool grows to the maximum number of concurrent calls.
pub struct Executors<T> {
    constants: Vec<Constant<T>>,
    programs: Programs<T>,
    free: Mutex<Vec<Executor<T>>>,
}

/// A constant tensor of a plan.
enum Constant<T> {
    Float(Vec<T>),
    Integers(Elements<'static>),
}

/// The element type of an engine: f32 or f64.
pub trait Number: Element + Default {
    /// The element type as a [`DType`].
    const DTYPE: DType;

    #[doc(hidden)]
    fn slice<'e>(elements: &'e Elements<'_>) -> Option<&'e [Self]>;
    #[doc(hidden)]
    fn slice_mut<'e>(elements: &'e mut Elements<'_>) -> Option<&'e mut [Self]>;
    #[doc(hidden)]
    fn executors(all: &AnyExecutors) -> Option<&Executors<Self>>;
}

macro_rules! numbers {
    ($($number:ident, $variant:ident, not $other:ident;)*) => {$(
        impl Number for $number {
            const DTYPE: DType = DType::$variant;

            fn slice<'e>(elements: &'e Elements<'_>) -> Option<&'e [$number]> {
                match elements {
                    Elements::$variant(numbers) => Some(numbers),
                    Elements::$other(numbers) => numbers.is_empty().then_some(&[]),
                    _ => None,
                }
            }

            fn slice_mut<'e>(elements: &'e mut Elements<'_>) -> Option<&'e mut [$number]> {
                if let Elements::$variant(numbers) = elements { Some(numbers.to_mut()) } else { None }
            }

            fn executors(all: &AnyExecutors) -> Option<&Executors<$number>> {
                if let AnyExecutors::$variant(executors) = all { Some(executors) } else { None }
            }
        }
    )*};
}

numbers! {
    f32, F32, not F64;
    f64, F64, not F32;
}

impl Engine {
    /// Compiles a program, or a loop of a program, for `machine`. The error names the op that prevented compilation.
    pub fn compile(whole: WholeRequest<'_>, division: Division, machine: Machine) -> Result<Self, Declined> {
        let plan = plan_graph(whole.graph, whole.sizes, division, whole.may_refuse)?;
        let bytes = plan.working_bytes() + plan.plan.bytes() as u64;
        if bytes > whole.memory_budget {
            return Err(Declined::new(
                "scan",
                format!("the plan and its scratch memory need {bytes} bytes, which exceeds the memory budget"),
            ));
        }
        let executors = match plan.dtype {
            DType::F64 => AnyExecutors::F64(Executors::new(&plan, machine)?),
            _ => AnyExecutors::F32(Executors::new(&plan, machine)?),
        };
        let engine = Engine { plan, executors };
        if cfg!(debug_assertions) {
            engine.check(whole, machine)?;
        }
        Ok(engine)
    }

    /// Checks that the plan computes the same values as the graph.
    fn check(&self, whole: WholeRequest<'_>, machine: Machine) -> Result<(), Declined> {
        let subject = Subject {
            graph: whole.graph,
            sizes: whole.sizes,
            plan: &self.plan.plan,
            dtype: self.plan.dtype,
            constants: &self.plan.constants,
            refuses: self.plan.refuses,
            machine,
        };
        proof::check(&subject, &|inputs| self.call_on_host(inputs)).map_err(|fault| Declined::fault(fault.to_string()))
    }

    /// Runs the engine on host tensors for the checker. Returns `None` if the engine rejects the inputs or takes too
    /// long.
    fn call_on_host(&self, inputs: &[HostTensor]) -> Result<Option<Vec<HostTensor>>, String> {
        let elements = |(index, tensor)| match self.reads(index) {
            Some(_) => self.elements(index, tensor),
            None => Some(Elements::NONE),
        };
        let Some(elements) = inputs.iter().enumerate().map(elements).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let start = Instant::now();
        let (watch, at) = (ActiveHandles::current(), Place::new("check", Site::Unknown));
        let is_late = || start.elapsed() > proof::RUN_TIME_LIMIT || watch.check(&at, Progress::Uncounted).is_err();
        let outcome = self.call(&elements, &is_late).map_err(|error| error.to_string())?;
        let Outcome::Done(results) = outcome else { return Ok(None) };
        let typed = results.into_iter().zip(self.results());
        let tensors = typed.map(|(elements, (dtype, shape))| self.tensor(elements, *dtype, shape));
        tensors.collect::<Result<Vec<HostTensor>, _>>().map(Some).map_err(|error| error.to_string())
    }

    /// Returns the type of all floats in the engine: f32 or f64.
    pub fn dtype(&self) -> DType {
        self.plan.dtype
    }

    /// Returns the type of the elements to pass for an operand, or `None` if the engine does not read the operand. In
    /// that case, pass [`Elements::NONE`].
    pub fn reads(&self, operand: usize) -> Option<DType> {
        self.plan.reads[operand]
    }

    /// Returns the names of the ops that the plan leaves to the reference evaluator.
    pub(crate) fn evaluated_ops(&self) -> Vec<&'static str> {
        self.plan.plan.evaluated_ops()
    }

    /// Returns the number of bytes that a call needs for scratch memory and constants.
    pub fn working_bytes(&self) -> usize {
        usize::try_from(self.plan.working_bytes()).unwrap_or(usize::MAX)
    }

    /// Returns `true` if the engine holds all operands and results as floats.
    pub(crate) fn is_float(&self) -> bool {
        self.plan.types.iter().flatten().all(|ty| *ty == Type::Float)
    }

    /// Returns the dtype and shape of each result.
    pub fn results(&self) -> &[(DType, Vec<usize>)] {
        &self.plan.results
    }

    /// Borrows the elements of a tensor for an operand, or converts them if the operand has another type. If the
    /// operand is held as floats, returns `None` for a tensor that contains too large an integer. If the operand is
    /// held as integers, returns `None` for a tensor of floats or booleans.
    pub fn elements<'a>(&self, operand: usize, tensor: &'a HostTensor) -> Option<Elements<'a>> {
        let dtype = self.dtype();
        if self.plan.types[0][operand] != Type::Float {
            return Elements::of_integers(tensor);
        }
        if tensor.dtype() == dtype {
            return Elements::of_floats(tensor, dtype);
        }
        // Accept only half of the range of exact integers, to leave room for additions.
        let greatest = greatest_integer(dtype) / 2;
        match tensor.dtype() {
            DType::I64 => Elements::holding::<i64>(tensor.as_slice()?, greatest, dtype),
            DType::I32 => Elements::holding::<i32>(tensor.as_slice()?, greatest, dtype),
            DType::U32 => Elements::holding::<u32>(tensor.as_slice()?, greatest, dtype),
            DType::U8 => Elements::holding::<u8>(tensor.as_slice()?, greatest, dtype),
            DType::Bool => {
                let bytes = tensor.as_slice::<bool>()?.iter().map(|holds| f64::from(u8::from(*holds)));
                Some(Elements::of_numbers(bytes, dtype))
            }
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => {
                Some(Elements::of_numbers(tensor.scalars().map(Scalar::as_f64), dtype))
            }
        }
    }

    /// Converts a result to a tensor of type `dtype`.
    pub fn tensor(&self, result: Elements<'static>, dtype: DType, shape: &[usize]) -> Result<HostTensor, BackendError> {
        let tensor = match result {
            Elements::F32(numbers) if dtype.is_int() => integers_of(&numbers, dtype, shape),
            Elements::F64(numbers) if dtype.is_int() => integers_of(&numbers, dtype, shape),
            numbers if dtype == DType::Bool => HostTensor::from_vec(numbers.to_bools::<bool>(), shape),
            Elements::F32(numbers) => HostTensor::from_vec(numbers.into_owned(), shape),
            Elements::F64(numbers) => HostTensor::from_vec(numbers.into_owned(), shape),
            Elements::I64(integers) => HostTensor::from_vec(integers.into_owned(), shape),
            Elements::I32(integers) => HostTensor::from_vec(integers.into_owned(), shape),
            Elements::U32(integers) => HostTensor::from_vec(integers.into_owned(), shape),
            Elements::U8(integers) => HostTensor::from_vec(integers.into_owned(), shape),
        };
        let tensor = tensor.ok_or("the engine returned a result of the wrong size")?;
        Ok(if tensor.dtype() == dtype { tensor } else { tensor.cast(dtype) })
    }

    /// Runs the engine. Polls `stop` between steps, and ends the call early when `stop` returns `true`. Refuses the
    /// call ([`Outcome::Refused`]) if a loop without a bound runs more steps than the element type can count exactly.
    pub fn call(
        &self,
        operands: &[Elements<'_>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome<Elements<'static>>, BackendError> {
        match &self.executors {
            AnyExecutors::F32(executors) => executors.call(&self.plan, operands, stop),
            AnyExecutors::F64(executors) => executors.call(&self.plan, operands, stop),
        }
    }

    /// Runs the engine on slices of its element type, and writes the results to the caller's slices. Only the first
    /// call allocates memory. Must not be used for engines that may refuse a call.
    pub(crate) fn call_into<T: Number>(&self, operands: &[&[T]], results: &mut [&mut [T]]) -> Result<(), BackendError> {
        let executors =
            T::executors(&self.executors).ok_or("an operand has a different element type than the engine")?;
        let operands = operands.iter().map(|operand| Some(Slice::Float(operand)));
        let mut results: SmallVec<[SliceMut<'_, T>; 8]> =
            results.iter_mut().map(|result| SliceMut::Float(result)).collect();
        let ran = executors.run(&self.plan, operands, &mut results, &|| false)?;
        if ran { Ok(()) } else { Err("the call was stopped".into()) }
    }
}

impl<T: Number> Executors<T> {
    fn new(plan: &GraphPlan, machine: Machine) -> Result<Self, Declined> {
        let constant = |(index, constant): (usize, &HostTensor)| {
            let place = Storage::Input(plan.reads.len() + index);
            let is_float = plan.plan.regions.iter().any(|region| region.place == place && region.ty == Type::Float);
            match Elements::of_integers(constant).filter(|_| !is_float) {
                Some(integers) => Constant::Integers(integers.into_owned()),
                None => Constant::Float(constant.scalars().map(|scalar| T::from_f64(scalar.as_f64())).collect()),
            }
        };
        let constants = plan.constants.iter().enumerate().map(constant).collect();
        let fault = |error: PlanError| Declined::fault(error.to_string());
        let first = Executor::new(plan.plan.clone(), machine).map_err(fault)?;
        Ok(Executors { constants, programs: first.programs(), free: Mutex::new(vec![first]) })
    }

    fn call(
        &self,
        plan: &GraphPlan,
        operands: &[Elements<'_>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Outcome<Elements<'static>>, BackendError> {
        let typed = plan.types[1].iter().zip(&plan.results);
        let mut results: Vec<Elements<'static>> =
            typed.map(|(ty, (_, shape))| Elements::zeros(*ty, T::DTYPE, shape.iter().product())).collect();
        let mut refusal = [T::default()];
        let outputs: Option<SmallVec<[SliceMut<'_, T>; 8]>> = results.iter_mut().map(Elements::as_output).collect();
        let mut outputs = outputs.ok_or("a result has a different element type than the engine")?;
        outputs.extend(refusal.chunks_mut(1).filter(|_| plan.refuses).map(SliceMut::Float));
        let is_done = self.run(plan, operands.iter().map(Elements::as_input), &mut outputs, stop)?;
        drop(outputs);
        Ok(match is_done {
            false => {
                free_on_another_thread(move || results.into_iter().for_each(Elements::free));
                Outcome::Stopped
            }
            true if refusal != [T::default()] => Outcome::Refused,
            true => Outcome::Done(results),
        })
    }

    /// Runs an idle executor, or a new one if all are busy. Returns `true` if the run finished, and `false` if `stop`
    /// ended it. Returns an error if an operand has floats of a type other than `T`.
    fn run<'o>(
        &'o self,
        plan: &GraphPlan,
        operands: impl Iterator<Item = Option<Slice<'o, T>>>,
        outputs: &mut [SliceMut<'_, T>],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, BackendError> {
        let constants = self.constants.iter().map(|constant| match constant {
            Constant::Float(floats) => Some(Slice::Float(floats)),
            Constant::Integers(integers) => integers.as_input(),
        });
        let inputs: Option<SmallVec<[Slice<'_, T>; 32]>> = operands.chain(constants).collect();
        let inputs = inputs.ok_or("an operand has a different element type than the engine")?;
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut executor = match free {
            Some(executor) => executor,
            None => Executor::of(plan.plan.clone(), self.programs.clone()),
        };
        let is_done = executor.call_typed(&inputs, outputs, stop)?;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(executor);
        Ok(is_done)
    }
}

/// Converts floats that represent integers to a tensor of type `dtype`.
fn integers_of<E: BodyElement>(numbers: &[E], dtype: DType, shape: &[usize]) -> Option<HostTensor> {
    let numbers = numbers.iter();
    match dtype {
        DType::I64 => HostTensor::from_vec(numbers.map(|number| number.to_i64()).collect(), shape),
        DType::I32 => HostTensor::from_vec(numbers.map(|number| number.to_i32()).collect(), shape),
        DType::U32 => HostTensor::from_vec(numbers.map(|number| number.to_u32()).collect(), shape),
        _ => HostTensor::from_vec(numbers.map(|number| number.to_u8()).collect(), shape),
    }
}

/// The maximum number of bytes to free at once.
const BYTES_FREED_AT_ONCE: usize = 32 << 20;

fn free_in_pieces<T>(mut memory: Vec<T>) {
    while memory.len() > BYTES_FREED_AT_ONCE / size_of::<T>() {
        memory.truncate(memory.len() - BYTES_FREED_AT_ONCE / size_of::<T>());
        memory.shrink_to_fit();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("plan", &self.plan).finish_non_exhaustive()
    }
}
