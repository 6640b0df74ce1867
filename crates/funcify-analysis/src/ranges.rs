//! Bounds the integers of a program.
//!
//! An engine that computes only in floats can hold an integer in a float if the engine's float type represents all
//! possible values of the integer exactly. This is usually true of step counters, indices, and integers computed from
//! them. To prove it for the sizes of a call, the analysis computes a range for each integer value by interval
//! arithmetic (Cousot and Cousot 1977). If each step adds to a state, the analysis bounds the total that all steps can
//! add.

use std::collections::HashMap;

use funcify_core::graph::{GraphId, Node, ValueId};
use funcify_core::ops::scan::{Scan, Start};
use funcify_core::ops::{
    self, Along, Control, Creation, Elementwise, Indexing, Movement, OpClass, ReduceKind, ScatterMode, Switch, While,
};

use funcify_core::types::{Sizes, Symbol};
use funcify_core::{DType, Graph, HostTensor, Scalar};

use crate::element::greatest_integer;

/// The maximum number of passes over a loop. A range that still grows after this many passes is widened to the
/// unbounded range.
const MAX_ROUNDS: usize = 6;

/// A range that contains all elements of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Possible {
    /// The empty range, for a value that the analysis has not reached yet.
    Nothing,
    /// The integers from the first bound to the second, both inclusive.
    Within(i128, i128),
    /// The unbounded range.
    Anything,
}

use Possible::{Anything, Nothing, Within};

impl Possible {
    /// Returns the smallest range that contains both ranges.
    fn or(self, other: Possible) -> Possible {
        match (self, other) {
            (Nothing, one) | (one, Nothing) => one,
            (Within(a, b), Within(c, d)) => Within(a.min(c), b.max(d)),
            _ => Anything,
        }
    }

    /// Returns the range of `f` over two ranges, by evaluating `f` at their endpoints. `f` must be multiplication, or
    /// monotone in each argument.
    fn ends(self, other: Possible, f: impl Fn(i128, i128) -> i128) -> Possible {
        match (self, other) {
            (Within(a, b), Within(c, d)) => {
                let all = [f(a, c), f(a, d), f(b, c), f(b, d)];
                all.into_iter().fold(Nothing, |ends, end| ends.or(Within(end, end)))
            }
            (Nothing, _) | (_, Nothing) => Nothing,
            _ => Anything,
        }
    }

    /// Returns the range if all its integers fit in `dtype`. Otherwise returns `Anything`, because an integer that
    /// overflows wraps around, and floats have no range.
    fn of_type(self, dtype: DType) -> Possible {
        match (self, limits(dtype)) {
            (Nothing, _) => Nothing,
            (Within(low, high), Some((least, greatest))) if least <= low && high <= greatest => self,
            // A boolean is 0 or 1, even if nothing else is known about it.
            (Anything, Some((0, 1))) => Within(0, 1),
            _ => Anything,
        }
    }
}

/// Returns the smallest and the largest integer of a type, or `None` for floats.
fn limits(dtype: DType) -> Option<(i128, i128)> {
    match dtype {
        DType::Bool => Some((0, 1)),
        DType::U8 => Some((0, u8::MAX.into())),
        DType::U32 => Some((0, u32::MAX.into())),
        DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
        DType::I64 => Some((i64::MIN.into(), i64::MAX.into())),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 => None,
    }
}

/// The range of a value, and its relation to a loop state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fact {
    possible: Possible,
    /// If the value is the sum of a loop state and other values: the index of the state, and the range of the sum of
    /// the other values.
    state: Option<(usize, Possible)>,
}

impl From<Possible> for Fact {
    fn from(possible: Possible) -> Self {
        Fact { possible, state: None }
    }
}

/// The ranges of the integers of a graph and its bodies. They determine which integers an engine can represent exactly
/// as floats.
///
/// ```
/// use funcify_analysis::{Possible, Ranges};
/// use funcify_core::ops::OpRules;
/// use funcify_core::types::Sizes;
/// use funcify_core::{DType, Graph, iota};
///
/// let graph = Graph::build("positions", |g| {
///     g.input("x", "f32[100]") + (iota(100, DType::I32) * 2).cast(DType::F32)
/// })?;
/// let ranges = Ranges::find(&graph, &Sizes::new(), DType::F32, false);
/// let doubled = graph.nodes().iter().find(|node| node.op.name() == "mul").expect("a product").outputs[0];
/// assert_eq!(ranges.of(&graph, doubled), Possible::Within(0, 198));
/// assert!(ranges.is_exact(&graph, doubled));
/// # Ok::<(), funcify_core::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct Ranges {
    graphs: HashMap<GraphId, Vec<Possible>>,
    /// The range of the trip count of each loop with early exit, keyed by the loop's symbol.
    counts: HashMap<Symbol, Possible>,
    /// The [`greatest_integer`] of the engine's float type.
    greatest: i128,
    are_checked: bool,
}

impl Ranges {
    /// Computes the ranges of a program's integers, for an engine whose float type is `element`.
    ///
    /// If `are_checked` is set, the caller promises to check two assumptions at run time. First, the absolute value of
    /// each integer input, except for `u32` inputs, is at most half of the [`greatest_integer`] of `element`. Second,
    /// each loop without a bound ends after at most [`max_checked_steps`](Ranges::max_checked_steps) steps.
    pub fn find(graph: &Graph, sizes: &Sizes, element: DType, are_checked: bool) -> Ranges {
        let greatest = i128::from(greatest_integer(element));
        let mut ranges = Ranges { greatest, are_checked, ..Ranges::default() };
        if !has_integers(graph) {
            return ranges;
        }
        let of_type = |dtype: DType| match limits(dtype) {
            // Most `u32` inputs are bit patterns, such as random bits, so callers do not check their ranges.
            Some((low, high)) if are_checked && dtype != DType::U32 => {
                Within(low.max(-greatest / 2), high.min(greatest / 2))
            }
            Some((low, high)) => Within(low, high),
            None => Anything,
        };
        let inputs = (0..graph.inputs().len()).map(|input| of_type(graph.input_type(input).dtype).into()).collect();
        ranges.graph(graph, inputs, sizes);
        ranges
    }

    /// Returns `true` if the caller checks assumptions about integer inputs and trip counts at run time.
    pub fn are_checked(&self) -> bool {
        self.are_checked
    }

    /// Returns the maximum number of steps assumed for a loop without a bound, or `None` if the caller does not check
    /// trip counts at run time. The engine's float type represents step counters up to this maximum exactly.
    pub fn max_checked_steps(&self) -> Option<usize> {
        self.are_checked.then_some(usize::try_from(self.greatest / 4).unwrap_or(usize::MAX))
    }

    /// Returns the range of a value of the graph or of a body. The result is [`Possible::Anything`] for floats, and for
    /// integers without a known range.
    pub fn of(&self, graph: &Graph, value: ValueId) -> Possible {
        self.graphs.get(&graph.id()).map_or(Anything, |all| all[value.index()])
    }

    /// Returns `true` if a value has an integer type, and the engine's float type represents each of its possible
    /// elements exactly.
    pub fn is_exact(&self, graph: &Graph, value: ValueId) -> bool {
        graph.ty(value).dtype.is_int() && self.are_all_exact(self.of(graph, value))
    }

    /// Returns `true` if a tensor has an integer type, and the engine's float type represents each of its elements
    /// exactly.
    pub fn is_tensor_exact(&self, tensor: &HostTensor) -> bool {
        tensor.dtype().is_int() && self.are_all_exact(elements(tensor))
    }

    fn are_all_exact(&self, possible: Possible) -> bool {
        match possible {
            Nothing => true,
            Within(low, high) => -self.greatest <= low && high <= self.greatest,
            Anything => false,
        }
    }

    /// Analyses a graph, given the facts about its inputs. Returns the facts about its outputs.
    fn graph(&mut self, graph: &Graph, inputs: Vec<Fact>, sizes: &Sizes) -> Vec<Fact> {
        let mut facts = vec![Fact::from(Nothing); graph.values().count()];
        for (input, fact) in graph.inputs().iter().zip(inputs) {
            facts[input.value.index()] = fact;
        }
        for node in graph.nodes() {
            let operands: Vec<Fact> = node.inputs.iter().map(|input| facts[input.index()]).collect();
            let results = self.node(graph, node, &operands, sizes);
            for (output, fact) in node.outputs.iter().zip(results) {
                let possible = fact.possible.of_type(graph.ty(*output).dtype);
                facts[output.index()] = Fact { possible, ..fact };
            }
        }
        let all = self.graphs.entry(graph.id()).or_insert_with(|| vec![Nothing; facts.len()]);
        for (before, fact) in all.iter_mut().zip(&facts) {
            *before = before.or(fact.possible);
        }
        graph.outputs().iter().map(|output| facts[output.value.index()]).collect()
    }

    fn node(&mut self, graph: &Graph, node: &Node, operands: &[Fact], sizes: &Sizes) -> Vec<Fact> {
        let count =
            |dim: &funcify_core::Dim| dim.value(sizes).map_or(Anything, |size| Within(size.into(), size.into()));
        let first = operands.first().copied().unwrap_or(Anything.into());
        let dtype = |operand: usize| graph.ty(node.inputs[operand]).dtype;
        let one = match node.op.class() {
            OpClass::Control(op) => {
                return match op {
                    Control::Scan(scan) => self.scan(scan, operands, sizes),
                    Control::While(op) => self.while_loop(op, operands, sizes),
                    Control::Switch(switch) => self.switch(switch, operands, sizes),
                    Control::AssociativeScan(_) | Control::Call(_) => vec![Anything.into(); node.outputs.len()],
                };
            }
            OpClass::Creation(op) => match op {
                Creation::Constant(constant) => elements(&constant.value).into(),
                Creation::Iota(iota) => match count(&iota.size) {
                    Within(size, _) if size > 0 => Within(0, size - 1).into(),
                    Within(..) | Nothing => Nothing.into(),
                    Anything => Anything.into(),
                },
                Creation::Size(size) => match size.dim.as_symbol().and_then(|symbol| self.counts.get(symbol)) {
                    Some(steps) => (*steps).into(),
                    None => count(&size.dim).into(),
                },
            },
            OpClass::Elementwise(op) => match op {
                Elementwise::Compare(_) | Elementwise::Predicate(_) => Within(0, 1).into(),
                Elementwise::Unary(op) => unary(*op, first, dtype(0)),
                Elementwise::Binary(ops::Binary::And) => {
                    let both = [0, 1].map(|operand| self.of_any(graph, node, operands, operand));
                    bits_of_both(both[0], both[1]).into()
                }
                // These ops limit the range even if nothing is known about an operand.
                Elementwise::Binary(op @ (ops::Binary::Max | ops::Binary::Min | ops::Binary::Rem)) => {
                    let [x, y] = [0, 1].map(|operand| Fact {
                        possible: self.of_any(graph, node, operands, operand),
                        ..operands[operand]
                    });
                    binary(*op, x, y)
                }
                Elementwise::Binary(op) => binary(*op, first, operands[1]),
                Elementwise::Bits(ops::Bits::ShiftRightLogical) => {
                    shifted_right(self.of_any(graph, node, operands, 0), operands[1].possible).into()
                }
                Elementwise::Select(_) => either(operands[1], operands[2]),
                Elementwise::Cast(cast) if cast.dtype == DType::Bool => Within(0, 1).into(),
                Elementwise::Cast(_) => first.possible.into(),
                // A bitwise op may set any bit, and `NextAfter` and `Polygamma` return floats.
                Elementwise::Bits(_) | Elementwise::NextAfter(_) | Elementwise::Polygamma(_) => Anything.into(),
            },
            OpClass::Movement(op) => match op {
                Movement::Broadcast(_) | Movement::Reshape(_) | Movement::Transpose(_) => first.possible.into(),
                Movement::Slice(_) | Movement::Reverse(_) => first.possible.into(),
                Movement::Concat(_) | Movement::Pad(_) => {
                    operands.iter().fold(Nothing, |all, operand| all.or(operand.possible)).into()
                }
                Movement::Bitcast(_) => Anything.into(),
            },
            OpClass::Indexing(op) => match op {
                Indexing::Take(_) | Indexing::DynamicSlice(_) | Indexing::Gather(_) => first.possible.into(),
                Indexing::DynamicUpdate(_) => either(first, operands[1]),
                Indexing::Scatter(op) if op.mode == ScatterMode::Set => either(first, operands[2]),
                Indexing::Scatter(_) => Anything.into(),
            },
            OpClass::Along(op) => match op {
                Along::Reduce(op) => {
                    let axes = op.axes.iter().map(|axis| count(&graph.ty(node.inputs[0]).shape[*axis]));
                    let count = axes.fold(Within(1, 1), |product, size| product.ends(size, i128::saturating_mul));
                    reduced(op.kind, first.possible, count).into()
                }
                Along::ArgMax(op) => match count(&graph.ty(node.inputs[0]).shape[op.axis]) {
                    Within(size, _) if size > 0 => Within(0, size - 1).into(),
                    _ => Anything.into(),
                },
                Along::Cumulative(_) | Along::Sort(_) => Anything.into(),
            },
            OpClass::Product(_) | OpClass::RandomBits(_) | OpClass::Binding(_) => Anything.into(),
            OpClass::Custom(_) => Anything.into(),
        };
        vec![one; node.outputs.len()]
    }

    /// Returns the range of an operand, or the full range of its integer type if nothing narrower is known.
    fn of_any(&self, graph: &Graph, node: &Node, operands: &[Fact], operand: usize) -> Possible {
        match (operands[operand].possible, limits(graph.ty(node.inputs[operand]).dtype)) {
            (Anything, Some((low, high))) => Within(low, high),
            (possible, _) => possible,
        }
    }

    /// Analyses a scan. Returns the range of each state. The range covers the state before, between and after the
    /// steps.
    fn scan(&mut self, scan: &Scan, operands: &[Fact], sizes: &Sizes) -> Vec<Fact> {
        let (places, params, results) = (scan.operands(), scan.params(), scan.results());
        let possible = |operand: usize| operands[operand].possible;
        let initial: Vec<Possible> = scan
            .buffers
            .iter()
            .zip(&places.buffers)
            .map(|(buffer, given)| match (buffer.start, given) {
                (Start::Empty, _) | (_, None) => Nothing,
                (_, Some(given)) => possible(*given),
            })
            .chain(places.carries.clone().map(possible))
            .collect();
        // For each state, the indices of the body's outputs that are written to it.
        let written: Vec<Vec<usize>> = results
            .buffers
            .iter()
            .map(|rows| rows.clone().collect())
            .chain(results.carries.clone().map(|next| vec![next]))
            .collect();
        let most = scan.steps.value(sizes).ok().map(i128::from);
        if let Some(symbol) = &scan.until {
            self.counts.insert(symbol.clone(), most.map_or(Anything, |most| Within(0, most)));
        }
        let states = self.states(initial, most, |ranges, states| {
            let mut inputs = vec![Fact::from(Anything); params.count];
            for (operand, reads) in places.sequences.clone().zip(&params.sequences) {
                reads.clone().for_each(|param| inputs[param] = possible(operand).into());
            }
            for (state, reads) in states.iter().zip(&params.buffers) {
                reads.clone().for_each(|param| inputs[param] = state.possible.into());
            }
            for (state, param) in states[scan.buffers.len()..].iter().zip(params.carries.clone()) {
                inputs[param] = *state;
            }
            for (operand, param) in places.invariants.clone().zip(params.invariants.clone()) {
                inputs[param] = possible(operand).into();
            }
            let outputs = ranges.graph(&scan.body, inputs, sizes);
            written
                .iter()
                .map(|rows| rows.iter().map(|row| outputs[*row]).reduce(either).expect("each step writes every state"))
                .collect()
        });
        states.into_iter().map(Fact::from).collect()
    }

    fn while_loop(&mut self, op: &While, operands: &[Fact], sizes: &Sizes) -> Vec<Fact> {
        let places = op.operands();
        let captured = |places: std::ops::Range<usize>| operands[places].iter().map(|fact| fact.possible.into());
        let initial = operands[places.carries.clone()].iter().map(|carry| carry.possible).collect();
        let bound = op.bound.as_ref().and_then(|bound| bound.value(sizes).ok()).map(i128::from);
        let most = bound.or(self.max_checked_steps().and_then(|most| i128::try_from(most).ok()));
        let states = self.states(initial, most, |ranges, states| {
            let inputs = |places| states.iter().copied().chain(captured(places)).collect();
            ranges.graph(&op.condition, inputs(places.condition.clone()), sizes);
            ranges.graph(&op.body, inputs(places.body.clone()), sizes)
        });
        states.into_iter().map(Fact::from).collect()
    }

    fn switch(&mut self, switch: &Switch, operands: &[Fact], sizes: &Sizes) -> Vec<Fact> {
        let places = switch.operands();
        let branches = switch.branches.iter().zip(places);
        let results = branches.map(|(branch, places)| self.graph(branch, operands[places].to_vec(), sizes));
        let both = |one: Vec<Fact>, other: Vec<Fact>| one.into_iter().zip(other).map(|(a, b)| either(a, b)).collect();
        results.reduce(both).expect("the type rule guarantees a branch")
    }

    /// Returns the range of each state in a loop with at most `most` steps. The range covers the state before, between
    /// and after the steps. `step` computes the next value of each state.
    ///
    /// If each step adds to a state, the state changes by at most `most` times the range of one addition. The ranges of
    /// the other states are computed by fixpoint iteration.
    fn states(
        &mut self,
        initial: Vec<Possible>,
        most: Option<i128>,
        mut step: impl FnMut(&mut Ranges, &[Fact]) -> Vec<Fact>,
    ) -> Vec<Possible> {
        let mut states = initial.clone();
        for round in 0.. {
            let facts: Vec<Fact> = states
                .iter()
                .enumerate()
                .map(|(index, possible)| Fact { possible: *possible, state: Some((index, Within(0, 0))) })
                .collect();
            let next = step(self, &facts);
            let mut grown = states.clone();
            for (index, fact) in next.into_iter().enumerate() {
                let added = match (fact.state, most) {
                    (Some((state, Within(low, high))), Some(most)) if state == index => {
                        let added = Within(low.min(0), high.max(0)).ends(Within(most, most), i128::saturating_mul);
                        Some(initial[index].ends(added, i128::saturating_add))
                    }
                    _ => None,
                };
                grown[index] = states[index].or(added.unwrap_or(fact.possible));
                if grown[index] != states[index] && round >= MAX_ROUNDS {
                    grown[index] = Anything;
                }
            }
            if grown == states {
                break;
            }
            states = grown;
        }
        states
    }
}

fn unary(op: ops::Unary, x: Fact, dtype: DType) -> Fact {
    match (op, x.possible) {
        (ops::Unary::StopGradient, _) => x,
        (ops::Unary::Neg, Within(low, high)) => Within(-high, -low).into(),
        (ops::Unary::Abs, Within(low, high)) => {
            let least = if low <= 0 && high >= 0 { 0 } else { low.abs().min(high.abs()) };
            Within(least, low.abs().max(high.abs())).into()
        }
        (ops::Unary::Sign, Within(..)) => Within(-1, 1).into(),
        (ops::Unary::Square, possible) => possible.ends(possible, i128::saturating_mul).into(),
        // In two's complement, `not x` is `ones - x`, where `ones` has all bits set.
        (ops::Unary::Not, Within(low, high)) => match all_ones(dtype) {
            Some(ones) => Within(ones - high, ones - low).into(),
            None => Anything.into(),
        },
        _ => Anything.into(),
    }
}

/// Returns the integer of type `dtype` whose bits are all set, or 1 for booleans. `not x` equals this integer minus
/// `x`. Returns `None` for floats.
pub fn all_ones(dtype: DType) -> Option<i128> {
    limits(dtype).map(|(low, high)| if low < 0 { -1 } else { high })
}

/// Returns the range of the bitwise AND of two integers.
fn bits_of_both(a: Possible, b: Possible) -> Possible {
    match (a, b) {
        (Within(0.., high), Within(0.., other)) => Within(0, high.min(other)),
        (Within(0.., high), _) | (_, Within(0.., high)) => Within(0, high),
        _ => Anything,
    }
}

/// Returns the range of an integer after a logical right shift by `places` bits. The range is known only if `a` is
/// nonnegative.
fn shifted_right(a: Possible, places: Possible) -> Possible {
    match (a, places) {
        (Within(0.., high), Within(least @ 0..=63, _)) => Within(0, high >> least),
        (Within(0.., high), _) => Within(0, high),
        _ => Anything,
    }
}

fn binary(op: ops::Binary, x: Fact, y: Fact) -> Fact {
    let (a, b) = (x.possible, y.possible);
    let possible = match op {
        ops::Binary::Add => a.ends(b, i128::saturating_add),
        ops::Binary::Sub => a.ends(b, i128::saturating_sub),
        ops::Binary::Mul => a.ends(b, i128::saturating_mul),
        ops::Binary::Max => a.ends(b, i128::max),
        ops::Binary::Min => a.ends(b, i128::min),
        // The range of a remainder or quotient is unbounded if the divisor may be 0.
        ops::Binary::Rem => match (a, b) {
            (Within(low, high), Within(least, most)) if least > 0 || most < 0 => {
                let largest = most.max(-least) - 1;
                Within(low.max(-largest).min(0), high.min(largest).max(0))
            }
            _ => Anything,
        },
        ops::Binary::Div => match (a, b) {
            (Within(..), Within(least, most)) if least > 0 || most < 0 => a.ends(b, |x, y| x / y),
            _ => Anything,
        },
        _ => Anything,
    };
    let state = match (op, x.state, y.state) {
        (ops::Binary::Add, Some((state, added)), _) if b != Anything => {
            Some((state, added.ends(b, i128::saturating_add)))
        }
        (ops::Binary::Add, _, Some((state, added))) if a != Anything => {
            Some((state, added.ends(a, i128::saturating_add)))
        }
        (ops::Binary::Sub, Some((state, added)), _) if b != Anything => {
            Some((state, added.ends(b, i128::saturating_sub)))
        }
        (ops::Binary::Max | ops::Binary::Min, ..) => either(x, y).state,
        _ => None,
    };
    Fact { possible, state }
}

/// Joins the facts about two values. Returns the facts that hold for a result in which each element comes from one of
/// the two values.
fn either(x: Fact, y: Fact) -> Fact {
    let state = match (x.state, y.state) {
        (Some((one, added)), Some((other, also))) if one == other => Some((one, added.or(also))),
        _ => None,
    };
    Fact { possible: x.possible.or(y.possible), state }
}

/// Returns the range of a reduction of `count` elements. The range includes all intermediate results.
fn reduced(kind: ReduceKind, x: Possible, count: Possible) -> Possible {
    match (kind, x, count) {
        (ReduceKind::Any | ReduceKind::All, ..) => Within(0, 1),
        (ReduceKind::Sum, Within(low, high), _) => Within(low.min(0), high.max(0)).ends(count, i128::saturating_mul),
        (ReduceKind::Max | ReduceKind::Min, possible, Within(count, _)) if count > 0 => possible,
        _ => Anything,
    }
}

/// Returns the smallest range that contains all elements of a tensor.
fn elements(tensor: &HostTensor) -> Possible {
    tensor.scalars().fold(Nothing, |all, scalar| {
        all.or(match scalar {
            Scalar::Float(_) => Anything,
            scalar => Within(scalar.as_i64().into(), scalar.as_i64().into()),
        })
    })
}

/// Returns `true` if a graph or one of its bodies has integer values.
fn has_integers(graph: &Graph) -> bool {
    graph.values().any(|value| graph.ty(value).dtype.is_int())
        || graph.nodes().iter().flat_map(|node| node.op.bodies()).any(|body| has_integers(body))
}
