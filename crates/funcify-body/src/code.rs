//! Assigns the values of a body to tiles.

use smallvec::SmallVec;

use crate::ir::{Body, IntBinary, Node, Op, Type, Value};
use crate::pairs::{Second, can_merge};
use crate::placement::Placement;

/// A body whose values are assigned to tiles. A tile is reused once its value is no longer needed.
#[derive(Clone, Debug)]
pub struct Code {
    pub(crate) steps: Vec<Step>,
    /// The constants. They are written to their tiles once per run, before the first block.
    pub(crate) constants: Vec<Constant>,
    /// The streams that are loaded.
    pub(crate) loads: Vec<Load>,
    /// The values to copy to streams when all steps of a block have run, each with the stream that receives it.
    pub(crate) stores: Vec<(Source, usize)>,
    /// The number of tiles.
    pub(crate) tiles: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) tile: usize,
    pub(crate) op: Op,
    pub(crate) ty: Type,
    /// `true` if the tile has the constant in all lanes, and `false` if it has a single element.
    pub(crate) is_whole: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) stream: usize,
    /// The tile that receives the stream's lanes if they are not adjacent in memory.
    pub(crate) tile: usize,
    /// `true` if a stream with a single element is loaded to all lanes of the tile.
    pub(crate) is_whole: bool,
}

/// An op on tiles, or two ops.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    /// The type of the result, and the type of the (first) op's last operand.
    pub(crate) types: [Type; 2],
    /// The destination. If it is a stream, neither this step nor a later one loads the memory that it overwrites.
    pub(crate) to: Place,
    /// The operands of the op, followed by the other operands of the second op.
    pub(crate) from: SmallVec<[Operand; 4]>,
    /// `true` if all operands are single elements.
    pub(crate) is_single: bool,
    pub(crate) second: Option<Second>,
}

/// Memory that a step reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// A tile, which holds the lanes of a block.
    Tile(usize),
    /// A stream, which holds the lanes of all blocks.
    Stream(usize),
}

/// An operand of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) place: Place,
    pub(crate) ty: Type,
    /// The offset of the element that all lanes use, or `None` if each lane has its own element.
    pub(crate) single: Option<usize>,
}

/// The location of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Tile(usize),
    /// A constant: its index in [`Code::constants`].
    Constant(usize),
    /// A stream that is loaded: its index in [`Code::loads`].
    Loaded(usize),
    /// A stream that an earlier step wrote.
    Stored(usize),
}

impl Code {
    /// Assigns the values of a body to tiles or, if possible, directly to the streams that receive them.
    pub(crate) fn new(body: &Body, placement: &Placement<'_>) -> Self {
        let nodes = body.nodes();
        let is_one = |value: Value| match nodes[value].op {
            Op::Number(_) | Op::Integer(_) => true,
            Op::Load(stream) => placement.single(stream).is_some(),
            _ => false,
        };
        let merged = merge(body, is_one);
        let operands = |index: usize| -> SmallVec<[Value; 4]> {
            match merged.first_of[index] {
                None => nodes[index].from.iter().copied().collect(),
                Some((first, at)) => {
                    let others = nodes[index].from.iter().enumerate().filter(|(operand, _)| *operand != at);
                    nodes[first].from.iter().copied().chain(others.map(|(_, value)| *value)).collect()
                }
            }
        };
        let (mut last_use, mut is_whole) = (vec![0; nodes.len()], vec![false; nodes.len()]);
        for (index, node) in nodes.iter().enumerate().filter(|(index, _)| !merged.is_first[*index]) {
            operands(index).iter().for_each(|value| last_use[*value] = index);
            needs_all_lanes(node).for_each(|operand| is_whole[node.from[operand]] = true);
        }
        for (value, _) in body.stores() {
            last_use[*value] = nodes.len();
            is_whole[*value] = true;
        }
        // Returns the stream to which the step of a value can write its result.
        let direct = |value: Value| {
            let mut own = body.stores().iter().filter(|(stored, _)| *stored == value).map(|(_, stream)| *stream);
            let (stored, None) = (own.next()?, own.next()) else { return None };
            let is_safe = nodes.iter().zip(&last_use).all(|(node, last_use)| match node.op {
                Op::Load(loaded) => *last_use < value || placement.sharing.are_apart(stored, loaded),
                _ => true,
            });
            (placement.is_dense(stored) && is_safe).then_some(stored)
        };
        let mut code =
            Code { steps: Vec::new(), constants: Vec::new(), loads: Vec::new(), stores: Vec::new(), tiles: 0 };
        let mut free: Vec<usize> = Vec::new();
        let mut places: Vec<Source> = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let mut own_tile = |free: &mut Vec<usize>| {
                free.pop().unwrap_or_else(|| {
                    code.tiles += 1;
                    code.tiles - 1
                })
            };
            let is_whole = is_whole[index];
            if merged.is_first[index] {
                // Nothing reads this place: the step of the second op has the operands of both ops.
                places.push(Source::Tile(usize::MAX));
                continue;
            }
            places.push(match node.op {
                Op::Number(_) | Op::Integer(_) => {
                    let tile = own_tile(&mut Vec::new());
                    code.constants.push(Constant { tile, op: node.op, ty: node.ty, is_whole });
                    Source::Constant(code.constants.len() - 1)
                }
                Op::Load(stream) => {
                    let tile = own_tile(&mut Vec::new());
                    code.loads.push(Load { stream, tile, is_whole });
                    Source::Loaded(code.loads.len() - 1)
                }
                op => {
                    let to = direct(index).map_or_else(|| Place::Tile(own_tile(&mut free)), Place::Stream);
                    let from = operands(index).into_iter();
                    let from = from.map(|value| code.operand(places[value], nodes[value].ty, placement));
                    let from: SmallVec<[Operand; 4]> = from.collect();
                    let first = merged.first_of[index];
                    let (first, second) = match first {
                        None => (node, None),
                        Some((first, at)) => (&nodes[first], Some(Second { op, at })),
                    };
                    let of = first.from.last().map_or(node.ty, |value| nodes[*value].ty);
                    let is_single = from.iter().all(|operand| operand.single.is_some());
                    code.steps.push(Step { op: first.op, types: [node.ty, of], to, from, is_single, second });
                    match to {
                        Place::Tile(tile) => Source::Tile(tile),
                        Place::Stream(stream) => Source::Stored(stream),
                    }
                }
            });
            let mut ended: SmallVec<[usize; 4]> = operands(index);
            ended.retain(|value| last_use[*value] == index);
            // The tile of a value that nothing reads is free immediately.
            if last_use[index] == 0 {
                ended.push(index);
            }
            ended.sort_unstable();
            ended.dedup();
            for value in ended {
                if let Source::Tile(tile) = places[value] {
                    free.push(tile);
                }
            }
        }
        let copied = body.stores().iter().map(|(value, stream)| (places[*value], *stream));
        code.stores = copied.filter(|(source, stream)| *source != Source::Stored(*stream)).collect();
        code
    }

    /// Returns a value with elements of type `ty` as an operand.
    fn operand(&self, source: Source, ty: Type, placement: &Placement<'_>) -> Operand {
        let (place, single) = match source {
            Source::Tile(tile) => (Place::Tile(tile), None),
            Source::Stored(stream) => (Place::Stream(stream), None),
            Source::Constant(constant) => {
                let Constant { tile, is_whole, .. } = self.constants[constant];
                (Place::Tile(tile), (!is_whole).then_some(0))
            }
            Source::Loaded(load) => {
                let Load { stream, tile, is_whole } = self.loads[load];
                match placement.single(stream) {
                    Some(first) if !is_whole => (Place::Stream(stream), Some(first)),
                    _ if placement.is_in_place(stream) => (Place::Stream(stream), None),
                    _ => (Place::Tile(tile), None),
                }
            }
        };
        Operand { place, ty, single }
    }
}

/// The pairs of ops that single steps compute.
struct Merged {
    /// `true` for each op that a later op's step computes, too.
    is_first: Vec<bool>,
    /// For each op, the op that its step computes first, and the number of the operand that is its result.
    first_of: Vec<Option<(Value, usize)>>,
}

/// Chooses pairs of ops to merge. The first op's result must have no other use.
fn merge(body: &Body, is_one: impl Fn(Value) -> bool) -> Merged {
    let nodes = body.nodes();
    let mut uses = vec![0; nodes.len()];
    nodes.iter().flat_map(|node| &node.from).for_each(|value| uses[*value] += 1);
    body.stores().iter().for_each(|(value, _)| uses[*value] += 1);
    let mut merged = Merged { is_first: vec![false; nodes.len()], first_of: vec![None; nodes.len()] };
    for (index, node) in nodes.iter().enumerate() {
        for (at, value) in node.from.iter().enumerate() {
            let first = &nodes[*value];
            if uses[*value] > 1 || merged.first_of[*value].is_some() {
                continue;
            }
            let others = node.from.iter().enumerate().filter(|(operand, _)| *operand != at).map(|(_, value)| value);
            let operands = first.from.iter().chain(others).enumerate();
            let ones: SmallVec<[usize; 4]> = operands.filter(|(_, value)| is_one(**value)).map(|(at, _)| at).collect();
            let compared = first.from.last().map_or(first.ty, |value| nodes[*value].ty);
            // A step whose operands are all single elements computes a single lane.
            let has_lanes = ones.len() < first.from.len() + node.from.len() - 1;
            if has_lanes && can_merge(first, compared, node, at, &ones) {
                merged.is_first[*value] = true;
                merged.first_of[index] = Some((*value, at));
                break;
            }
        }
    }
    merged
}

/// Returns the numbers of the operands that the kernel of an op reads in all lanes, even if they have a single element.
fn needs_all_lanes(node: &Node) -> std::ops::Range<usize> {
    match node.op {
        Op::Int(IntBinary::Div | IntBinary::Rem | IntBinary::Pow) => 0..2,
        Op::Select => 0..1,
        _ => 0..0,
    }
}
