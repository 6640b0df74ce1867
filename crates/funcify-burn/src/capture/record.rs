//! Uses Burn's graph capture to record closures on Burn tensors.
//!
//! Capture executes nothing: the closure is called with tensors of a device that only records ops. The record is
//! specialised to the sizes of these tensors, and Rust loops in the closure are unrolled. The tensors have no elements,
//! so Burn panics if the closure reads any, and [`Closure::record`] returns `Unsupported`. However, a closure may
//! handle a failed read and continue, or draw random numbers on the host. To detect such closures, this module records
//! the closure a second time, with tensors that have elements, and rejects the closure if the two records differ.

use burn::backend::Dispatch;
use burn::backend::ops::{BoolTensorOps, FloatTensorOps, IntTensorOps};
use burn::tensor::{BoolDType, FloatDType, IntDType, TensorData};

use super::panics::{Panic, catch_panic};
use super::probe::{Comparison, Evidence, OpsWithStops};
use super::recorded::Closure;
use super::stops::{self, Stop, StopError};
use super::tape::{self, Edges};
use super::*;
use crate::dtypes;
use crate::kinds;

/// A closure that receives the capture device and tensors on that device, and returns tensors.
pub(crate) type Body<'a> = dyn Fn(&Device, Vec<AnyTensor>) -> Result<Vec<AnyTensor>> + 'a;

/// The recorded ops of a closure.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// The ops, in the order in which they were recorded. Tensors are numbered consecutively: first the inputs, then
    /// the other tensors in order of first use.
    pub(crate) ops: Vec<OperationIr>,
    /// The number of inputs. Their ids are `0..inputs`.
    pub(crate) inputs: usize,
    /// The ids of the results.
    pub(crate) outputs: Vec<u64>,
    /// The elements of tensors that the closure created from data, keyed by tensor id.
    pub(crate) constants: BTreeMap<u64, TensorData>,
}

/// A record, with the data needed to check its gradients.
pub(crate) struct Recording {
    pub(crate) record: Record,
    /// The ops with the chosen gradient stops, and the record of Burn's backward pass. `None` without autodiff.
    evidence: Option<(OpsWithStops, Evidence)>,
}

/// Selects whether the arguments have elements while a closure is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Elements {
    /// The arguments have no elements.
    None,
    /// The arguments are filled with a fixed value.
    Some,
}

impl Record {
    /// Returns whether two records have the same ops, operands, constants and results.
    pub(crate) fn is_same(&self, other: &Record) -> bool {
        self.difference(other).is_none()
    }

    /// Returns a description of the first difference between two records, or `None` if they are the same.
    fn difference(&self, other: &Record) -> Option<String> {
        for (mine, theirs) in self.ops.iter().zip(&other.ops) {
            // NaN scalars compare unequal to themselves, but their printed forms are equal.
            if mine != theirs && format!("{mine:?}") != format!("{theirs:?}") {
                return Some(match (op_name(mine), op_name(theirs)) {
                    (mine, theirs) if mine == theirs => format!("a `{mine}` with a different attribute or operand"),
                    (mine, theirs) => format!("a `{mine}`, then a `{theirs}`"),
                });
            }
        }
        let same = |(mine, theirs): (&TensorData, &TensorData)| {
            mine.shape() == theirs.shape() && mine.dtype() == theirs.dtype() && mine.as_bytes() == theirs.as_bytes()
        };
        if self.ops.len() != other.ops.len() {
            return Some(format!("{} ops, then {}", self.ops.len(), other.ops.len()));
        }
        if (self.inputs, &self.outputs) != (other.inputs, &other.outputs) {
            return Some("different results".into());
        }
        let constants = self.constants.len() == other.constants.len();
        match constants && self.constants.values().zip(other.constants.values()).all(same) {
            true => None,
            false => Some("a constant with different elements".into()),
        }
    }

    /// Returns whether the record contains a gradient stop.
    pub(crate) fn has_stops(&self) -> bool {
        self.ops.iter().any(|op| stops::as_stop(op).is_some())
    }

    /// Returns one flag per input: `true` if an op reads the input, or if the input is a result.
    pub(crate) fn used_inputs(&self) -> Vec<bool> {
        let mut used = vec![false; self.inputs];
        let read = self.ops.iter().flat_map(|op| op.inputs()).map(|tensor| tensor.id.value());
        for id in read.chain(self.outputs.iter().copied()) {
            if let Some(used) = used.get_mut(id as usize) {
                *used = true;
            }
        }
        used
    }
}

/// Returns Burn's name for an op, for example `Matmul`.
pub(crate) fn op_name(op: &OperationIr) -> String {
    if let OperationIr::Custom(op) = op {
        return op.id.clone();
    }
    // The debug form of an op is, for example, `NumericFloat(F32, Add(BinaryOpIr { .. }))`.
    let text = format!("{op:?}");
    let path: Vec<&str> = text.split(" {").next().expect("a split yields a part").split(['(', ' ']).collect();
    path.iter().rev().nth(1).map_or(text.clone(), |name| name.to_string())
}

impl Closure<'_> {
    /// Records the ops of the closure, which is called with arguments that have no elements.
    pub(crate) fn record(&self) -> Result<Recording> {
        self.record_with(Elements::None)
    }

    /// Checks a recorded closure. Rejects it if it records different ops when its arguments have elements. Also
    /// compares the closure's gradients with Burn's in several trials, and rejects the closure if they differ in more
    /// trials than they agree. Skips this comparison if the trials cannot run, for example because Burn's backward pass
    /// has an op without a translation.
    pub(crate) fn check(&self, first: &Recording) -> Result<()> {
        let second = self.record_with(Elements::Some)?;
        if let Some(difference) = first.record.difference(&second.record) {
            return Err(unsupported(
                self.at,
                "a closure whose ops depend on more than its arguments, or on the elements of its tensors",
                &format!("when it was called again, it recorded {difference}"),
                "select by values with `mask_where`; pass values that are read or drawn at random as arguments",
            ));
        }
        let Some((way, evidence)) = &first.evidence else { return Ok(()) };
        match evidence.compare(self.at, self.device, std::slice::from_ref(way)) {
            Ok(comparisons) if comparisons.iter().any(|it| it.differing > it.agreeing) => {
                Err(StopError::OtherRules.into_error(self.at))
            }
            Err(error @ Error::Cancelled { .. }) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Records the closure on a capture device. If the closure's own device has autodiff, the recorded tensors have it
    /// too, and the record has a gradient stop wherever Burn's tape has no edge: see [`tape`](super::tape).
    fn record_with(&self, elements: Elements) -> Result<Recording> {
        let capture = PooledDevice::like(self.device);
        let has_tape = self.device.is_autodiff();
        let on_device = if has_tape { capture.device.clone().autodiff() } else { capture.device.clone() };
        let mut ends = None;
        let _outer = tape::begin();
        let recording = || {
            capture.device.capture_scope(|scope| {
                capture.configure();
                let given = self.types.iter().map(|ty| placeholder(&capture.device, ty, elements));
                let given = given.map(|tensor| if has_tape { tape::leaf(tensor) } else { tensor });
                let inputs: Vec<AnyTensor> = given.map(AnyTensor::new).collect();
                let numbers: Vec<TensorId> = inputs.iter().filter_map(|input| id(input.as_dispatch())).collect();
                let outputs = (self.body)(&on_device, inputs.clone()).and_then(|outputs| {
                    let ids = outputs.iter().map(|output| (id(output.as_dispatch()), output.describe()));
                    let ids = ids
                        .enumerate()
                        .map(|(index, (id, ty))| id.ok_or_else(|| foreign_result_error(self.at, index, ty)));
                    let ids = ids.collect::<Result<Vec<TensorId>>>();
                    ids.map(|ids| (ids, outputs))
                });
                let (ids, alive) = match outputs {
                    Ok((ids, alive)) => (Ok(ids), alive.into_iter().map(AnyTensor::into_dispatch).collect()),
                    Err(error) => (Err(error), Vec::new()),
                };
                let edges = has_tape.then(|| tape::record_backward(&alive));
                let mut unique = Vec::new();
                for id in ids.iter().flatten().filter(|id| !numbers.contains(id)) {
                    if !unique.contains(id) {
                        unique.push(*id);
                    }
                }
                // Burn records a placeholder without elements as an op, so the placeholder must not be declared as an
                // input.
                let given = if elements == Elements::None { Vec::new() } else { numbers.clone() };
                let token = scope.complete(given, unique);
                ends = Some((numbers, ids, edges));
                token
            })
        };
        let graph = catch_panic(recording).map_err(|panic| panic_error(self.at, &panic))?;
        let Some((inputs, outputs, edges)) = ends else {
            return Err(unsupported(self.at, "the closure", "it did not finish", "report this as a bug in funcify"));
        };
        let outputs = outputs?;
        let graph = graph.map_err(|error| {
            let fix = "create every tensor in the closure, or pass it as an argument";
            unsupported(self.at, "the closure", &error.to_string(), fix)
        })?;
        if let Some(edges) = edges {
            return self.with_stops(graph, inputs, &outputs, edges);
        }
        Ok(Recording { record: renumber(graph, &inputs, &outputs), evidence: None })
    }

    /// Builds the record from a graph that contains the closure's ops, followed by Burn's backward pass. Inserts the
    /// gradient stops and removes the backward pass.
    fn with_stops(
        &self,
        mut graph: CapturedGraph,
        inputs: Vec<TensorId>,
        outputs: &[TensorId],
        edges: Edges,
    ) -> Result<Recording> {
        let mut ops = std::mem::take(&mut graph.graph.operations);
        let is_end = |op: &OperationIr| matches!(op, OperationIr::Custom(op) if op.id == tape::END);
        let end = ops.iter().position(is_end).unwrap_or(ops.len());
        let backward = ops.split_off(end).into_iter().skip(1).collect();
        let ways = stops::find_stops(&ops, &edges).map_err(|error| error.into_error(self.at))?;
        let types = self.types.to_vec();
        let evidence = Evidence { graph, inputs, types, ops, backward, edges };
        let way = match ways.as_slice() {
            [way] => way,
            _ => self.choose_stops(&ways, outputs, &evidence)?,
        };
        let (ops, outputs) = add_stops(&evidence, outputs, way);
        let graph = GraphIr { operations: ops.clone(), ..evidence.graph.graph.clone() };
        let graph = CapturedGraph { graph, values: evidence.graph.values.clone() };
        let record = renumber(graph, &evidence.inputs, &outputs);
        Ok(Recording { record, evidence: Some(((ops, outputs), evidence)) })
    }

    /// Returns the placement of gradient stops that yields Burn's gradients in every trial, or an error if the trials
    /// do not single out one placement.
    fn choose_stops<'w>(
        &self,
        ways: &'w [BTreeSet<Stop>],
        outputs: &[TensorId],
        evidence: &Evidence,
    ) -> Result<&'w BTreeSet<Stop>> {
        let live = ways.iter().map(|way| stops::live_places(&evidence.ops, outputs, &evidence.edges, way));
        let live: Vec<BTreeSet<Stop>> = live.collect();
        if live.iter().all(|other| *other == live[0]) {
            return Ok(&ways[0]);
        }
        let with_stops: Vec<OpsWithStops> = ways.iter().map(|way| add_stops(evidence, outputs, way)).collect();
        let comparisons = evidence.compare(self.at, self.device, &with_stops).map_err(|error| match error {
            Error::Cancelled { .. } => error,
            _ => StopError::Ambiguous.into_error(self.at),
        })?;
        let is_burns = |(_, comparison): &(usize, &Comparison)| comparison.differing == 0;
        let matching: Vec<usize> = comparisons.iter().enumerate().filter(is_burns).map(|(index, _)| index).collect();
        match matching.split_first() {
            Some((first, others)) if others.iter().all(|other| live[*other] == live[*first]) => Ok(&ways[*first]),
            _ => Err(StopError::Ambiguous.into_error(self.at)),
        }
    }
}

/// Returns the closure's ops and results, with gradient stops inserted at the places in `way`.
fn add_stops(evidence: &Evidence, outputs: &[TensorId], way: &BTreeSet<Stop>) -> OpsWithStops {
    let mut outputs = outputs.to_vec();
    let ops = stops::add(evidence.ops.clone(), &mut outputs, way);
    (ops, outputs)
}

struct Renumber(HashMap<TensorId, TensorId>);

impl Renumber {
    fn number(&mut self, id: TensorId) -> TensorId {
        let next = TensorId::new(self.0.len() as u64);
        *self.0.entry(id).or_insert(next)
    }
}

impl IrVisitorMut for Renumber {
    fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
        tensor.id = self.number(tensor.id);
    }
}

pub(super) fn renumber(graph: CapturedGraph, inputs: &[TensorId], outputs: &[TensorId]) -> Record {
    let mut numbers = Renumber(HashMap::new());
    inputs.iter().for_each(|input| _ = numbers.number(*input));
    let mut ops = graph.graph.operations;
    let is_placeholder = |op: &OperationIr| op.outputs().any(|output| inputs.contains(&output.id));
    ops.retain(|op| !matches!(op, OperationIr::Init(_)) && !is_placeholder(op));
    ops.iter_mut().for_each(|op| op.visit_mut(&mut numbers));
    let outputs = outputs.iter().map(|output| numbers.number(*output).value()).collect();
    let values = graph.values.into_iter().filter(|(id, _)| !inputs.contains(id));
    let constants = values.filter_map(|(id, data)| Some((numbers.0.get(&id)?.value(), data))).collect();
    Record { ops, inputs: inputs.len(), outputs, constants }
}

/// A capture device from a pool, with the same default dtypes as the closure's own device. Capture devices are reused,
/// because Burn supports only 65,536 of them per process. Each records one closure at a time.
struct PooledDevice {
    device: Device,
    /// The default dtypes to set. `Some` only if the device is new.
    settings: Option<(FloatDType, IntDType)>,
}

static FREE_DEVICES: Mutex<Vec<Device>> = Mutex::new(Vec::new());

impl PooledDevice {
    fn like(device: &Device) -> Self {
        let settings_of = |device: &Device| (device.settings().float_dtype, device.settings().int_dtype);
        let settings = settings_of(device);
        let mut free = FREE_DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        match free.iter().position(|free| settings_of(free) == settings) {
            Some(index) => PooledDevice { device: free.swap_remove(index), settings: None },
            None => PooledDevice { device: Device::capture(), settings: Some(settings) },
        }
    }

    /// Sets the default dtypes of a new device. During capture, Burn allows this only before a tensor exists.
    fn configure(&self) {
        if let Some(settings) = self.settings {
            // This cannot fail, because only a device that already has settings rejects new ones.
            let _ = self.device.clone().configure(settings);
        }
    }
}

impl Drop for PooledDevice {
    fn drop(&mut self) {
        FREE_DEVICES.lock().unwrap_or_else(PoisonError::into_inner).push(self.device.clone());
    }
}

/// Returns the id of a tensor, or `None` if it is not recorded.
fn id(tensor: &Tensor) -> Option<TensorId> {
    tape::router(tensor).map(|tensor| tensor.id())
}

fn placeholder(device: &Device, ty: &TensorType, elements: Elements) -> Tensor {
    let shape = ty.shape.constant().expect("a closure is recorded with constant sizes");
    if elements == Elements::Some {
        return kinds::filled(device, ty.dtype, &shape, if ty.dtype.is_float() { -1.25 } else { 1.0 });
    }
    let (shape, device) = (Shape::from(shape), device.as_dispatch());
    match (dtypes::float(ty.dtype), dtypes::integer(ty.dtype)) {
        (Ok(dtype), _) => Dispatch::float_empty(shape, device, dtype),
        (_, Ok(dtype)) => Dispatch::int_empty(shape, device, dtype),
        _ => Dispatch::bool_empty(shape, device, BoolDType::Native),
    }
}

/// Returns the type of an argument, or of its rows if `row` is set. Errors refer to the argument as `what`.
pub(crate) fn type_of(at: &Place, what: &str, tensor: &AnyTensor, row: bool) -> Result<TensorType> {
    let shape = tensor.shape();
    let shape = if row { &shape[1..] } else { &shape };
    match tensor.dtype() {
        Some(dtype) => Ok(TensorType::new(dtype, shape)),
        None => {
            let expected = format!("one of the dtypes {}", DType::ALL.map(|dtype| dtype.to_string()).join(", "));
            Err(misfit(at, what, expected, tensor.describe(), "cast the tensor"))
        }
    }
}

/// Returns the device of the first tensor with autodiff, or of the first tensor if none has it. Returns `None` if there
/// are no tensors.
pub(crate) fn device_of<'a>(tensors: impl Iterator<Item = &'a AnyTensor> + Clone) -> Option<Device> {
    let first = tensors.clone().next().map(AnyTensor::device);
    tensors.map(AnyTensor::device).find(Device::is_autodiff).or(first)
}

pub(super) fn unsupported(at: &Place, what: &str, reason: &str, fix: &str) -> Error {
    crate::device::unsupported(at, "burn-capture", what, reason, fix)
}

fn foreign_result_error(at: &Place, index: usize, found: String) -> Error {
    at.mismatch(
        format!("result {index} of the closure"),
        "a tensor that the closure computed from its arguments",
        format!("a {found} of another device"),
        "pass it as an argument, and return the argument",
    )
}

/// Parts of the messages with which Burn panics if the operands of an op are on different devices.
const DEVICE_MISMATCHES: [&str; 3] = ["not on the same device", "is on the wrong backend", "on different backends"];

fn panic_error(at: &Place, panic: &Panic) -> Error {
    let line = panic.line.as_ref().map_or_else(String::new, |line| format!(", at {line}"));
    // Burn's capture panics with this message if the closure reads elements.
    if panic.text.contains("has no concrete value") {
        return unsupported(
            at,
            "a closure that reads elements of its tensors",
            &format!("it is recorded once for all elements, but reads some{line}"),
            "select by values with `mask_where`; read numbers that Rust code needs (a repeat count) outside of the \
             closure",
        );
    }
    let of = |what: &str, reason: &str, fix: &str| unsupported(at, what, &format!("{reason}{line}"), fix);
    if panic.text.contains("do not support autodiff") {
        return of(
            "a closure that adds or removes autodiff (`inner`, `without_autodiff`, `from_inner`, `backward`, `grad`)",
            "Burn's capture does not support such tensors",
            "stop gradients with `detach`; compute gradients of the loop's results, outside of the closure",
        );
    }
    if panic.text.contains("Cannot move ") {
        return of(
            "a closure that moves a tensor to a device (`to_device`)",
            "recorded tensors have no elements to move",
            "move the tensor beforehand, and pass it as an argument",
        );
    }
    if DEVICE_MISMATCHES.iter().any(|text| panic.text.contains(text)) {
        return of(
            "a closure that uses a tensor, or a module, of its surroundings' device",
            "it is recorded on a separate device, and Burn rejects ops on two devices",
            "pass what the closure captures as the first argument (`scan(&module, ..)`, `scan((weight, &module), ..)`), \
             and use the closure's first parameter; create tensors on the device of a parameter (`&x.device()`)",
        );
    }
    if panic.text.contains("not implemented") || panic.text.contains("not yet implemented") {
        return of(
            "an op that Burn's capture does not have, for example on quantised tensors",
            &panic.text,
            "compute it beforehand, and pass the result as an argument; or use floats",
        );
    }
    unsupported(
        at,
        "the closure, which panicked while it was recorded",
        &format!("{}{line}", panic.text),
        "use only tensors passed to it or created on their device; elements of recorded tensors cannot be read",
    )
}

/// Returns the dtype of a recorded tensor, or `None` if funcify does not support it.
pub(crate) fn dtype_of(tensor: &TensorIr) -> Option<DType> {
    dtypes::from_burn(tensor.dtype)
}
