//! Assigns the values of a body to tiles.

use smallvec::SmallVec;

use crate::ir::{Body, Op, Type};

/// A body whose values are assigned to tiles. A tile is reused once its value is no longer needed.
#[derive(Clone, Debug)]
pub struct Code {
    pub(crate) steps: Vec<Step>,
    /// The constants, each with its tile. They are written to their tiles once per run, before the first block.
    pub(crate) constants: Vec<(usize, Op, Type)>,
    /// The streams that are loaded, each with the tile that receives its lanes if they are not adjacent in memory.
    pub(crate) loads: Vec<(usize, usize)>,
    /// The values that are stored, each with the stream that receives it.
    pub(crate) stores: Vec<(Source, usize)>,
    /// The number of tiles.
    pub(crate) tiles: usize,
}

/// An op on tiles.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    /// The type of the result, and the type of the last operand.
    pub(crate) types: [Type; 2],
    pub(crate) to: usize,
    pub(crate) from: SmallVec<[Source; 3]>,
}

/// The location of an operand of a step, or of a stored value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Tile(usize),
    /// A stream that is loaded: its index in [`Code::loads`].
    Loaded(usize),
}

impl Code {
    pub(crate) fn new(body: &Body) -> Self {
        let nodes = body.nodes();
        let mut last_use = vec![0; nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            node.from.iter().for_each(|value| last_use[*value] = index);
        }
        body.stores().iter().for_each(|(value, _)| last_use[*value] = nodes.len());
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
            places.push(match node.op {
                Op::Number(_) | Op::Integer(_) => {
                    let tile = own_tile(&mut Vec::new());
                    code.constants.push((tile, node.op, node.ty));
                    Source::Tile(tile)
                }
                Op::Load(stream) => {
                    let tile = own_tile(&mut Vec::new());
                    code.loads.push((stream, tile));
                    Source::Loaded(code.loads.len() - 1)
                }
                op => {
                    let to = own_tile(&mut free);
                    let from: SmallVec<[Source; 3]> = node.from.iter().map(|value| places[*value]).collect();
                    let of_last = node.from.last().map_or(node.ty, |value| nodes[*value].ty);
                    code.steps.push(Step { op, types: [node.ty, of_last], to, from });
                    Source::Tile(to)
                }
            });
            let mut ended: SmallVec<[usize; 4]> = node.from.iter().copied().filter(|v| last_use[*v] == index).collect();
            // The tile of a value that nothing reads is free immediately.
            if last_use[index] == 0 {
                ended.push(index);
            }
            ended.sort_unstable();
            ended.dedup();
            for value in ended {
                if let (Source::Tile(tile), false) =
                    (places[value], matches!(nodes[value].op, Op::Number(_) | Op::Integer(_)))
                {
                    free.push(tile);
                }
            }
        }
        code.stores = body.stores().iter().map(|(value, stream)| (places[*value], *stream)).collect();
        code
    }
}
