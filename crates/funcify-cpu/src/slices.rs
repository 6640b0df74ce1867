//! Programs that read and write the caller's slices, and allocate no memory after the first call.

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;

use funcify_core::error::{Error, Place, Result, Site};
use funcify_core::{DType, Graph, Shape, TensorType};
use funcify_runtime::{Function, bind_sizes};

use crate::backend::{Cpu, HostProgram};
use crate::engine::Number;

/// A program that is compiled for fixed sizes, and reads and writes the caller's slices.
///
/// Use it for very frequent calls, such as a simulation step or a filter in a control loop. Graphs that cannot be
/// compiled as a whole are rejected.
///
/// ```
/// use funcify::{Graph, scan};
/// use funcify_cpu::OnSlices;
///
/// let graph = Graph::build("running", |g| {
///     let (start, xs) = (g.input("start", "f32[3]"), g.input("xs", "f32[T,3]"));
///     scan(start, xs, |sum, x| (sum + x, sum + x)).1
/// })?;
/// let running = OnSlices::compile(&graph, &[&[3], &[2, 3]])?;
/// let mut sums = [0.0f32; 6];
/// running.call(&[&[1.0, 0.0, 0.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], &mut [&mut sums])?;
/// assert_eq!(sums, [2.0, 2.0, 3.0, 6.0, 7.0, 9.0]);
/// # Ok::<(), funcify::Error>(())
/// ```
#[derive(Debug)]
pub struct OnSlices {
    program: Arc<HostProgram>,
    name: String,
    inputs: Vec<Slot>,
    outputs: Vec<Slot>,
}

/// The maximum number of elements in a slice of f64.
const MAX_ELEMENTS: usize = isize::MAX as usize / size_of::<f64>();

/// The name, type and number of elements of an argument or a result.
#[derive(Debug)]
struct Slot {
    name: String,
    ty: TensorType,
    elements: usize,
}

impl Slot {
    /// Creates a slot. If the number of elements overflows, it saturates at a value that exceeds the length of any
    /// slice.
    fn new(name: &str, dtype: DType, shape: &[usize]) -> Self {
        let ty = TensorType::new(dtype, Shape::from(shape));
        let count = |product: usize, size: &usize| product.saturating_mul(*size);
        let elements = if shape.contains(&0) { 0 } else { shape.iter().fold(1, count) };
        Slot { name: name.to_string(), ty, elements }
    }

    /// Returns the range of values that an integer or boolean element may have, or `None` for floats.
    fn integer_range(&self) -> Option<RangeInclusive<f64>> {
        match self.ty.dtype {
            DType::Bool => Some(0.0..=1.0),
            DType::U8 => Some(0.0..=u8::MAX.into()),
            DType::U32 => Some(0.0..=u32::MAX.into()),
            DType::I32 => Some(i32::MIN.into()..=i32::MAX.into()),
            DType::I64 => Some(i64::MIN as f64..=i64::MAX as f64),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
        }
    }
}

impl OnSlices {
    /// Compiles a graph for arguments of the given shapes. `shapes` contains one shape for each input. If the graph
    /// cannot be compiled as a whole, the error names the op that prevents it. [`Function`] supports such graphs, too.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify_cpu::OnSlices;
    ///
    /// let product = Graph::build("product", |g| g.input("x", "f64[2,N]").matmul(g.input("y", "f64[N]")))?;
    /// let product = OnSlices::compile(&product, &[&[2, 3], &[3]])?;
    /// assert_eq!(product.inputs().map(|(name, _)| name).collect::<Vec<_>>(), ["x", "y"]);
    /// assert_eq!(product.outputs().next().unwrap().1.to_string(), "f64[2]");
    /// # Ok::<(), funcify::Error>(())
    /// ```
    #[track_caller]
    pub fn compile(graph: &Graph, shapes: &[&[usize]]) -> Result<Self> {
        let at = Place::new("compile", Site::caller());
        if shapes.len() != graph.inputs().len() {
            let (expected, found) = (format!("{} arguments", graph.inputs().len()), format!("{} shapes", shapes.len()));
            let fix = "pass one shape for each input, in the order of the inputs";
            return Err(at.mismatch("the list of shapes", expected, found, fix));
        }
        let inputs = graph.inputs().iter().enumerate();
        let inputs: Vec<Slot> = inputs
            .zip(shapes)
            .map(|((index, input), shape)| Slot::new(graph.input_name(index), graph.ty(input.value).dtype, shape))
            .collect();
        if let Some(Slot { name, ty, .. }) = inputs.iter().find(|input| input.elements > MAX_ELEMENTS) {
            let fix = "compile it for the sizes of the slices that you will pass";
            return Err(at.mismatch(format!("the shape of `{name}`"), "a size that fits in memory", ty, fix));
        }
        let types: Vec<TensorType> = inputs.iter().map(|input| input.ty.clone()).collect();
        let sizes = bind_sizes(&at, graph, &types)?;
        let whole: Arc<dyn Any + Send + Sync> = Function::compile(graph, &Cpu::default())?.whole(&at, &sizes)?;
        let declined = |reason: &str| Error::Unsupported {
            at: at.boxed(),
            backend: "cpu".into(),
            what: "this program on slices".into(),
            reason: reason.into(),
            fix: "call it on tensors with `Function::call`".into(),
        };
        let program = whole.downcast::<HostProgram>().map_err(|_| declined("it is not compiled as a whole"))?;
        let engine = &program.0;
        if !engine.is_float() {
            return Err(declined("slices of floats cannot hold its integers"));
        }
        let given = types.iter().map(|ty| ty.dtype).chain(engine.results().iter().map(|(dtype, _)| *dtype));
        for dtype in given {
            if dtype.is_float() && dtype != engine.dtype() {
                return Err(declined(&format!("slices of {} elements cannot hold {dtype}", engine.dtype())));
            }
        }
        let results = engine.results().iter().zip(graph.outputs());
        let outputs = results.map(|((dtype, shape), output)| Slot::new(&output.name, *dtype, shape)).collect();
        Ok(OnSlices { program, name: graph.name().to_string(), inputs, outputs })
    }

    /// Returns the names and types of the arguments, in order.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = (&str, &TensorType)> {
        self.inputs.iter().map(|input| (input.name.as_str(), &input.ty))
    }

    /// Returns the names and types of the results, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = (&str, &TensorType)> {
        self.outputs.iter().map(|output| (output.name.as_str(), &output.ty))
    }

    /// Runs the program. Arguments and results are in row-major order. `T` is the float type of the graph. Integers and
    /// booleans are passed as floats of type `T`: an integer must be in the range of its own type, and a boolean must
    /// be 0 or 1. Only the first call allocates memory. Several threads may call the program concurrently. Each
    /// concurrent call uses its own scratch memory, which is allocated once and then reused.
    ///
    /// ```
    /// use funcify::Graph;
    /// use funcify_cpu::OnSlices;
    ///
    /// // One step of an integrator, called again and again.
    /// let step = Graph::build("step", |g| g.input("x", "f64[2]") + g.input("v", "f64[2]") * 0.5)?;
    /// let step = OnSlices::compile(&step, &[&[2], &[2]])?;
    /// let (mut x, v) = ([0.0, 1.0], [2.0, -1.0]);
    /// for _ in 0..2 {
    ///     let before = x;
    ///     step.call(&[&before, &v], &mut [&mut x])?;
    /// }
    /// assert_eq!(x, [2.0, 0.0]);
    /// # Ok::<(), funcify::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Type`] if the number, lengths or element type of the slices are wrong, or if an argument has an
    /// element that its type cannot represent. For example, 300.5 is not a `u8`, 2 is not a `bool`, and -0.0 is
    /// neither.
    #[track_caller]
    pub fn call<T: Number>(&self, inputs: &[&[T]], results: &mut [&mut [T]]) -> Result<()> {
        let site = Site::caller();
        let place = || Place::new(self.name.clone(), site);
        let engine = &self.program.0;
        if engine.dtype() != T::DTYPE {
            let fix = "pass slices of the expected type";
            return Err(place().mismatch("the element type", engine.dtype(), T::DTYPE, fix));
        }
        check_lengths(place, "argument", &self.inputs, inputs.iter().map(|slice| slice.len()))?;
        check_lengths(place, "result", &self.outputs, results.iter().map(|slice| slice.len()))?;
        self.inputs.iter().zip(inputs).try_for_each(|(slot, slice)| check_elements(place, slot, slice))?;
        let failed = |source| Error::Execution { at: place().boxed(), backend: "cpu".into(), source };
        engine.call_into(inputs, results).map_err(failed)?;
        let integers = self.outputs.iter().zip(results).filter(|(slot, _)| !slot.ty.dtype.is_float());
        for number in integers.flat_map(|(_, result)| result.iter_mut()) {
            // Add 0 to turn -0.0 into 0: the plan computes -0.0 for 0 times a negative integer.
            *number = number.plus(T::default());
        }
        Ok(())
    }
}

/// Checks that the elements of an argument are valid for its type. Floats are always valid.
fn check_elements<T: Number>(place: impl Fn() -> Place, slot: &Slot, slice: &[T]) -> Result<()> {
    let Some(range) = slot.integer_range() else { return Ok(()) };
    let is_one = |number: f64| range.contains(&number) && number.trunc() == number && !is_negative_zero(number);
    let Some(index) = slice.iter().position(|number| !is_one(number.to_f64())) else { return Ok(()) };
    let Slot { name, ty, .. } = slot;
    let expected = match ty.dtype {
        DType::Bool => "0 or 1".to_string(),
        _ => format!("an integer from {} to {}", range.start(), range.end()),
    };
    let (found, fix) = (slice[index].to_f64(), format!("pass elements that {} can represent", ty.dtype));
    Err(place().mismatch(format!("element {index} of argument `{name}`, {ty}"), expected, format!("{found:?}"), fix))
}

fn is_negative_zero(number: f64) -> bool {
    number == 0.0 && number.is_sign_negative()
}

/// Checks that there is one slice for each slot, and that each slice has the length of its slot.
fn check_lengths(
    place: impl Fn() -> Place,
    kind: &str,
    slots: &[Slot],
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<()> {
    if lengths.len() != slots.len() {
        let fix = format!("pass one slice for each {kind}, in order");
        return Err(place().mismatch(format!("the number of {kind}s"), slots.len(), lengths.len(), fix));
    }
    match slots.iter().zip(lengths).find(|(slot, length)| slot.elements != *length) {
        None => Ok(()),
        Some((Slot { name, ty, elements }, length)) => {
            let fix = format!("pass a slice of {elements} elements, in row-major order");
            let (expected, found) = (format!("{ty}, {elements} elements"), format!("{length} elements"));
            Err(place().mismatch(format!("{kind} `{name}`"), expected, found, fix))
        }
    }
}
