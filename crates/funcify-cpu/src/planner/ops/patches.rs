//! Tensors that consist of views of other tensors, side by side: rotated, shifted, padded and concatenated tensors. A
//! body reads such tensors in place, one box of its iteration space at a time, so their elements are not copied.

use funcify_body::Type;

use super::*;

/// The maximum number of boxes into which the iteration space of a body is divided.
const MAX_BOXES: usize = 64;

/// A tensor that consists of views of other tensors. The views do not overlap, and together they cover the tensor.
#[derive(Clone, Debug)]
pub(super) struct Patches {
    pub(super) shape: Vec<usize>,
    patches: Vec<Patch>,
}

/// A view, and the index of its first element in the whole tensor.
#[derive(Clone, Debug)]
struct Patch {
    start: Vec<usize>,
    view: View,
}

/// A box in an iteration space: its first index and its size along each axis.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Area {
    start: Vec<usize>,
    size: Vec<usize>,
}

impl Patches {
    /// Returns a tensor that consists of a single view.
    pub(super) fn of(view: View) -> Self {
        Patches { shape: view.shape.clone(), patches: vec![Patch { start: vec![0; view.shape.len()], view }] }
    }

    /// Concatenates tensors along `axis`, without copying their elements.
    pub(super) fn concat(axis: usize, parts: &[Patches]) -> Self {
        let (mut shape, mut patches) = (parts[0].shape.clone(), Vec::new());
        shape[axis] = 0;
        for part in parts {
            for Patch { start, view } in part.patches.iter().filter(|patch| !patch.view.is_empty()) {
                let mut start = start.clone();
                start[axis] += shape[axis];
                patches.push(Patch { start, view: view.clone() });
            }
            shape[axis] += part.shape[axis];
        }
        Patches { shape, patches }
    }

    /// Selects `count` indices of an axis, starting at `first`, without copying elements.
    pub(super) fn slice(&self, axis: usize, first: usize, count: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = count;
        let patches = self.patches.iter().filter_map(|Patch { start, view }| {
            let (from, to) = (start[axis].max(first), (start[axis] + view.shape[axis]).min(first + count));
            let mut start = start.clone();
            let view = (from < to).then(|| view.part(axis, from - start[axis], to - from, 1))?;
            start[axis] = from - first;
            Some(Patch { start, view })
        });
        Patches { patches: patches.collect(), shape }
    }

    /// Converts this tensor to the planned form of a value: [`Value::Tensor`] if the tensor consists of a single view,
    /// and [`Value::Patches`] otherwise.
    pub(super) fn into_value(self) -> Value {
        match self.as_view() {
            Some(view) => Value::Tensor(view.clone()),
            None => Value::Patches(self),
        }
    }

    /// Returns the view if the tensor consists of a single view, and `None` otherwise.
    pub(super) fn as_view(&self) -> Option<&View> {
        match &self.patches[..] {
            [patch] => Some(&patch.view),
            _ => None,
        }
    }

    /// Returns the maximum level of the views, or 0 if there are none.
    pub(super) fn level(&self) -> usize {
        self.views().map(|view| view.level).max().unwrap_or(0)
    }

    /// Returns the views that make up the tensor.
    pub(super) fn views(&self) -> impl Iterator<Item = &View> {
        self.patches.iter().map(|patch| &patch.view)
    }

    /// Returns a pair for each view: the part of `whole` at the view's position, and the view. `whole` must have the
    /// shape of the tensor.
    pub(super) fn places(&self, whole: &View) -> Vec<(View, View)> {
        let place = |Patch { start, view }: &Patch| {
            let area = Area { start: start.clone(), size: view.shape.clone() };
            (area.part(whole), view.clone())
        };
        self.patches.iter().map(place).collect()
    }

    /// Returns `true` if two tensors consist of the same views at the same positions.
    pub(super) fn is_same(&self, other: &Patches) -> bool {
        self.patches.len() == other.patches.len()
            && self
                .patches
                .iter()
                .zip(&other.patches)
                .all(|(one, other)| one.start == other.start && one.view.is_same_view(&other.view))
    }

    /// Returns the part of the tensor that lies in a box, or `None` if the box does not lie within a single view.
    pub(super) fn within(&self, area: &Area) -> Option<View> {
        let axes = || 0..self.shape.len();
        let contains = |patch: &&Patch| {
            axes().all(|axis| {
                let end = patch.start[axis] + patch.view.shape[axis];
                patch.start[axis] <= area.start[axis] && area.start[axis] + area.size[axis] <= end
            })
        };
        let Patch { start, view } = self.patches.iter().find(contains)?;
        let part = |view: View, axis: usize| view.part(axis, area.start[axis] - start[axis], area.size[axis], 1);
        Some(axes().fold(view.clone(), part))
    }
}

impl Scope<'_, '_> {
    /// Returns `true` if a concatenated or padded tensor should be read in place: if it is large enough for a fused
    /// body, has no assigned destination, and is read by an elementwise op, a slice, a concatenation or a padding.
    pub(super) fn is_read_in_place(&self, value: ValueId) -> Result<bool> {
        let ty = self.graph.ty(value).dtype;
        let is_number = self.planner.is_number(ty);
        let least = match self.planner.is_typed && self.planner.representation(self.graph, value) != Type::Float {
            true => self.planner.division.min_in_place().0,
            false => self.planner.division.min_floats(false),
        };
        let is_placed = self.places[value.index()].is_some() || self.joins.whole(value).is_some();
        let is_large = self.shape_of(value)?.iter().product::<usize>() >= least;
        let is_share = self.planner.label(self.graph, value) == Label::Share;
        Ok(is_large
            && !is_placed
            && !is_share
            && (self.planner.is_typed || is_number)
            && self.readers.read_parts(value))
    }

    /// Returns a value as a tensor that consists of one or more views. Computes the value first if it was deferred.
    pub(super) fn patches(&mut self, value: ValueId) -> Result<Patches> {
        match &self.values[value.index()] {
            Some(Value::Patches(patches)) => Ok(patches.clone()),
            _ => Ok(Patches::of(self.tensor(value)?)),
        }
    }

    /// Concatenates tensors along `axis`. Leaves their views in place, except for views whose elements must be
    /// converted to the type in which the plan holds `value`.
    pub(super) fn side_by_side(&mut self, axis: usize, parts: &[Patches], value: ValueId) -> Result<Value> {
        self.planner.emitter.fired.note(Transformation::Patches);
        let mut joined = Patches::concat(axis, parts);
        let ty = self.planner.representation(self.graph, value);
        for patch in &mut joined.patches {
            patch.view = self.planner.emitter.converted(&patch.view, ty)?;
        }
        Ok(joined.into_value())
    }

    /// Copies a tensor that consists of views to the memory for `value`, and returns the copy.
    pub(super) fn assemble(&mut self, patches: &Patches, value: ValueId) -> Result<View> {
        let to = self.typed_target(value, &patches.shape, patches.level(), self.type_of_patches(patches));
        self.copy_patches(&to, patches)?;
        self.held_as(value, to)
    }

    fn copy_patches(&mut self, to: &View, patches: &Patches) -> Result<()> {
        patches.places(to).iter().try_for_each(|(place, view)| self.planner.emitter.copy(place, view))
    }

    /// Returns the type of the elements, which is the same in all views.
    pub(super) fn type_of_patches(&self, patches: &Patches) -> Type {
        patches.views().next().map_or(Type::Float, |view| self.planner.emitter.ty(view))
    }

    /// Divides the iteration space of a body into boxes. Returns, for each box, the views that the body stores and the
    /// views that it loads. If there would be too many boxes, first copies each tensor that consists of several views.
    pub(super) fn boxes(
        &mut self,
        level: usize,
        targets: &[View],
        loads: &[Patches],
    ) -> Result<Vec<(Vec<View>, Vec<View>)>> {
        let Some(first) = targets.first() else { return Ok(Vec::new()) };
        let areas = Area::divide(&first.shape, loads.iter());
        if areas.len() > 1
            && (areas.len() > MAX_BOXES || first.len() < self.planner.division.min_in_place().1 * areas.len())
        {
            let mut whole = Vec::with_capacity(loads.len());
            for load in loads {
                whole.push(match load.as_view() {
                    Some(view) => Patches::of(view.clone()),
                    None => {
                        let ty = self.type_of_patches(load);
                        let copy = self.planner.emitter.reserve_typed(&load.shape, level, ty);
                        self.copy_patches(&copy, load)?;
                        Patches::of(copy)
                    }
                });
            }
            return self.boxes(level, targets, &whole);
        }
        let operands = |area: &Area| -> Result<(Vec<View>, Vec<View>)> {
            let within = |load: &Patches| {
                load.within(area).ok_or_else(|| Declined::fault("views side by side do not cover their tensor"))
            };
            Ok((
                targets.iter().map(|target| area.part(target)).collect(),
                loads.iter().map(within).collect::<Result<_>>()?,
            ))
        };
        areas.iter().map(operands).collect()
    }
}

impl Area {
    /// Returns the part of the tensor `whole` that lies in the box.
    pub(super) fn part(&self, whole: &View) -> View {
        (0..self.start.len()).fold(whole.clone(), |view, axis| view.part(axis, self.start[axis], self.size[axis], 1))
    }

    /// Divides an iteration space into boxes, each of which lies within one view of each tensor.
    pub(super) fn divide<'p>(shape: &[usize], tensors: impl Iterator<Item = &'p Patches> + Clone) -> Vec<Area> {
        let mut boxes = vec![Area { start: Vec::new(), size: Vec::new() }];
        for (axis, size) in shape.iter().enumerate() {
            let patches = tensors.clone().flat_map(|tensor| &tensor.patches);
            let mut cuts: Vec<usize> = patches
                .flat_map(|patch| [patch.start[axis], patch.start[axis] + patch.view.shape[axis]])
                .chain([0, *size])
                .collect();
            cuts.sort_unstable();
            cuts.dedup();
            let along = |area: &Area| -> Vec<Area> {
                let longer = |(from, to): (&usize, &usize)| Area {
                    start: [&area.start[..], &[*from]].concat(),
                    size: [&area.size[..], &[to - from]].concat(),
                };
                cuts.iter().zip(&cuts[1..]).map(longer).collect()
            };
            boxes = boxes.iter().flat_map(along).collect();
        }
        boxes
    }
}
