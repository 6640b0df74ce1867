//! What the integers of a program can be.
//!
//! An engine may have floats alone. An integer is one of them where all that it can be are numbers that the element type holds
//! exactly: counters of steps, indices, what is computed of them. So each integer has the range of its elements, found by
//! interval arithmetic (Cousot and Cousot 1977) for the sizes of the call. Of a state that each step adds to, the range is
//! what all steps together can add.

use std::collections::HashMap;

use funcify_core::graph::{GraphId, Node, ValueId};
use funcify_core::ops::scan::{Scan, Start};
use funcify_core::ops::{
    self, Along, Control, Creation, Elementwise, Indexing, Movement, Op, OpClass, ReduceKind, ScatterMode, Switch,
    While,
};

use funcify_core::types::{Sizes, Symbol};
use funcify_core::{DType, Graph, HostTensor, Scalar};

use crate::element::greatest_integer;

/// How often a loop is looked at before what still grows may be anything.
const MOST_ROUNDS: usize = 6;

/// What the elements of a value can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Possible {
    /// No element was seen yet.
    Nothing,
    /// At least the first number and at most the second.
    Within(i128, i128),
    /// Nothing is known.
    Anything,
}

use Possible::{Anything, Nothing, Within};

impl Possible {
    /// What either can be.
    fn or(self, other: Possible) -> Possible {
        match (self, other) {
            (Nothing, one) | (one, Nothing) => one,
            (Within(a, b), Within(c, d)) => Within(a.min(c), b.max(d)),
            _ => Anything,
        }
    }

    /// What a monotone function of both, or a product, of the ends can be.
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

    /// As an element of a type: a number beyond it would wrap. Floats can be anything.
    fn of_type(self, dtype: DType) -> Possible {
        match (self, limits(dtype)) {
            (Nothing, _) => Nothing,
            (Within(low, high), Some((least, greatest))) if least <= low && high <= greatest => self,
            // What an op gives of which nothing is said.
            (Anything, Some((0, 1))) => Within(0, 1),
            _ => Anything,
        }
    }
}

/// The least and the greatest integer of a type.
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

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fact {
    possible: Possible,
    /// The state of the loop around it that it is, but for what was added to each element.
    state: Option<(usize, Possible)>,
}

impl From<Possible> for Fact {
    fn from(possible: Possible) -> Self {
        Fact { possible, state: None }
    }
}

/// What the integers of a graph and of its bodies can be, and which of them an engine holds as floats.
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
/// assert!(ranges.hold(&graph, doubled));
/// # Ok::<(), funcify_core::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct Ranges {
    graphs: HashMap<GraphId, Vec<Possible>>,
    /// How many steps at most run of the loops that end early, by the symbol of that number.
    counts: HashMap<Symbol, Possible>,
    /// The greatest number up to which the element type holds every integer, and its negative.
    greatest: i128,
    are_checked: bool,
    has_words: bool,
}

impl Ranges {
    /// Finds the ranges of a program for an engine whose numbers are of type `element`. `are_checked` says that whoever runs the
    /// program checks what only a running loop knows: that integers which are given are numbers of that type, and that loops
    /// without a bound end after [so many](Ranges::most_checked_steps) steps.
    pub fn find(graph: &Graph, sizes: &Sizes, element: DType, are_checked: bool) -> Ranges {
        let greatest = i128::from(greatest_integer(element));
        let has_words = has_random_bits(graph);
        let mut ranges = Ranges { greatest, are_checked, has_words, ..Ranges::default() };
        if !has_integers(graph) {
            return ranges;
        }
        let of_type = |dtype: DType| match limits(dtype) {
            Some((low, high)) if are_checked && !(has_words && dtype == DType::U32) => {
                Within(low.max(-greatest / 2), high.min(greatest / 2))
            }
            Some((low, high)) => Within(low, high),
            None => Anything,
        };
        let inputs = (0..graph.inputs().len()).map(|input| of_type(graph.input_type(input).dtype).into()).collect();
        ranges.graph(graph, inputs, sizes);
        ranges
    }

    /// Tells whether the program has random bits: `u32` are then words, not numbers.
    pub fn has_words(&self) -> bool {
        self.has_words
    }

    /// Tells whether whoever runs the program checks what only a running loop knows: integers that are given, how many rows there
    /// are.
    pub fn are_checked(&self) -> bool {
        self.are_checked
    }

    /// Bounds the steps of a loop without a bound, where whoever runs the program checks that these are enough: so many that
    /// integers which are counted up stay among those that the element type holds.
    pub fn most_checked_steps(&self) -> Option<usize> {
        self.are_checked.then_some(usize::try_from(self.greatest / 4).unwrap_or(usize::MAX))
    }

    /// Returns what a value of the graph or of a body can be: [`Possible::Anything`] for floats, and where nothing is known.
    pub fn of(&self, graph: &Graph, value: ValueId) -> Possible {
        self.graphs.get(&graph.id()).map_or(Anything, |all| all[value.index()])
    }

    /// Tells whether the element type holds an integer, whatever it is.
    pub fn hold(&self, graph: &Graph, value: ValueId) -> bool {
        graph.ty(value).dtype.is_int() && self.are_held(self.of(graph, value))
    }

    /// Tells whether the element type holds all elements of a tensor of integers.
    pub fn hold_all(&self, tensor: &HostTensor) -> bool {
        tensor.dtype().is_int() && self.are_held(elements(tensor))
    }

    fn are_held(&self, possible: Possible) -> bool {
        match possible {
            Nothing => true,
            Within(low, high) => -self.greatest <= low && high <= self.greatest,
            Anything => false,
        }
    }

    /// Looks at a graph with these inputs; gives what its outputs can be.
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
                Elementwise::Binary(op) => binary(*op, first, operands[1]),
                Elementwise::Bits(ops::Bits::ShiftRightLogical) => {
                    shifted_right(self.of_any(graph, node, operands, 0), operands[1].possible).into()
                }
                Elementwise::Select(_) => either(operands[1], operands[2]),
                Elementwise::Cast(cast) if cast.dtype == DType::Bool => Within(0, 1).into(),
                Elementwise::Cast(_) => first.possible.into(),
                // The first may set any bit; the others are floats.
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

    /// What an operand can be, if anything then what its type has.
    fn of_any(&self, graph: &Graph, node: &Node, operands: &[Fact], operand: usize) -> Possible {
        match (operands[operand].possible, limits(graph.ty(node.inputs[operand]).dtype)) {
            (Anything, Some((low, high))) => Within(low, high),
            (possible, _) => possible,
        }
    }

    /// A loop: its states are what they can be before some step.
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
        // What a step gives for each state.
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
                .map(|rows| rows.iter().map(|row| outputs[*row]).reduce(either).expect("each state is written"))
                .collect()
        });
        states.into_iter().map(Fact::from).collect()
    }

    /// A loop that a condition ends.
    fn while_loop(&mut self, op: &While, operands: &[Fact], sizes: &Sizes) -> Vec<Fact> {
        let places = op.operands();
        let captured = |places: std::ops::Range<usize>| operands[places].iter().map(|fact| fact.possible.into());
        let initial = operands[places.carries.clone()].iter().map(|carry| carry.possible).collect();
        let bound = op.bound.as_ref().and_then(|bound| bound.value(sizes).ok()).map(i128::from);
        let most = bound.or(self.most_checked_steps().and_then(|most| i128::try_from(most).ok()));
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
        results.reduce(both).expect("a choice has a branch")
    }

    /// What the states of a loop of at most so many steps can be, before a step and at the end. `step` gives the next of
    /// each.
    ///
    /// A state that a step adds to is at most what so many steps add away from its start; another one is found by looking
    /// again until nothing new comes.
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
                if grown[index] != states[index] && round >= MOST_ROUNDS {
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
        // The bits of all ones minus the integer.
        (ops::Unary::Not, Within(low, high)) => match all_ones(dtype) {
            Some(ones) => Within(ones - high, ones - low).into(),
            None => Anything.into(),
        },
        _ => Anything.into(),
    }
}

/// Returns the integer of a type that has all bits, or a true boolean: `not` is what is missing to it.
pub fn all_ones(dtype: DType) -> Option<i128> {
    limits(dtype).map(|(low, high)| if low < 0 { -1 } else { high })
}

/// What the bits can be that two integers have in common.
fn bits_of_both(a: Possible, b: Possible) -> Possible {
    match (a, b) {
        (Within(0.., high), Within(0.., other)) => Within(0, high.min(other)),
        (Within(0.., high), _) | (_, Within(0.., high)) => Within(0, high),
        _ => Anything,
    }
}

/// What an integer that is not negative can be, its bits shifted by a number of places.
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
        // What a division by zero gives is the op's own.
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

/// One of two values.
fn either(x: Fact, y: Fact) -> Fact {
    let state = match (x.state, y.state) {
        (Some((one, added)), Some((other, also))) if one == other => Some((one, added.or(also))),
        _ => None,
    };
    Fact { possible: x.possible.or(y.possible), state }
}

/// What a reduction of so many elements can be; partial sums are no larger.
fn reduced(kind: ReduceKind, x: Possible, count: Possible) -> Possible {
    match (kind, x, count) {
        (ReduceKind::Any | ReduceKind::All, ..) => Within(0, 1),
        (ReduceKind::Sum, Within(low, high), _) => Within(low.min(0), high.max(0)).ends(count, i128::saturating_mul),
        (ReduceKind::Max | ReduceKind::Min, possible, Within(count, _)) if count > 0 => possible,
        _ => Anything,
    }
}

/// What the elements of a tensor are.
fn elements(tensor: &HostTensor) -> Possible {
    tensor.scalars().fold(Nothing, |all, scalar| {
        all.or(match scalar {
            Scalar::Float(_) => Anything,
            scalar => Within(scalar.as_i64().into(), scalar.as_i64().into()),
        })
    })
}

/// Tells whether a graph or one of its bodies has random bits.
fn has_random_bits(graph: &Graph) -> bool {
    graph.nodes().iter().any(|node| {
        matches!(node.op, Op::Threefry(_)) || node.op.bodies().into_iter().any(|body| has_random_bits(body))
    })
}

/// Tells whether a graph or one of its bodies has integers.
fn has_integers(graph: &Graph) -> bool {
    graph.values().any(|value| graph.ty(value).dtype.is_int())
        || graph.nodes().iter().flat_map(|node| node.op.bodies()).any(|body| has_integers(body))
}
