//! Chooses the memory in which values are computed.

use super::*;

impl Scope<'_, '_> {
    /// Sets the destination of a value. If the value is a reshaped tensor, or a cast that changes no element, that
    /// tensor gets the same destination. If the value is the transpose of a result that is written in parts, that
    /// result gets the transposed destination.
    pub(in super::super) fn place(&mut self, value: ValueId, place: View) {
        let node = |value: ValueId| match self.graph.source(value) {
            Source::Node(node, _) => Some(self.graph.node(node)),
            Source::Input(_) => None,
        };
        if let Some(Node { op: GraphOp::Transpose(op), inputs, .. }) = node(value)
            && node(inputs[0]).is_some_and(|node| gives_parts(&node.op))
        {
            let back = (0..op.axes.len()).filter_map(|axis| op.axes.iter().position(|from| *from == axis));
            let place = place.transposed(&back.collect::<Vec<usize>>());
            self.places[inputs[0].index()].get_or_insert(place);
        }
        if let Some(Node { op: GraphOp::Reshape(_), inputs, .. }) = node(value)
            && let Ok(shape) = self.planner.shape(self.graph, inputs[0])
            && let Some(before) = place.reshaped(&shape)
            && self.places[inputs[0].index()].is_none()
        {
            self.place(inputs[0], before);
        }
        if let Some(Node { op: GraphOp::Cast(_), inputs, .. }) = node(value)
            && self.holds(&place, inputs[0])
            && cast_kernel(self.graph.ty(inputs[0]).dtype, self.graph.ty(value).dtype).is_none()
            && self.planner.rounding(self.graph.ty(value).dtype).is_none()
            && self.places[inputs[0].index()].is_none()
        {
            self.place(inputs[0], place.clone());
        }
        self.places[value.index()] = Some(place);
    }

    /// Records the register of a state, and the value that will be the state in the next step.
    pub(in super::super) fn state(&mut self, state: ValueId, next: ValueId, register: View) {
        if state == next {
            return;
        }
        self.next_of[next.index()] = Some((state, register));
    }

    /// Returns the memory for a value that is computed at `level`: its assigned destination, or else the register of
    /// the state that it replaces, if that register is free, or else new memory.
    pub(super) fn target(&mut self, value: ValueId, shape: &[usize], level: usize) -> View {
        self.target_like(value, shape, level, &[])
    }

    /// Returns the memory for a value, chosen in the same way as by [`target`](Scope::target). New memory gets the
    /// memory order of `operands`, which the op reads elementwise.
    pub(super) fn target_like(&mut self, value: ValueId, shape: &[usize], level: usize, operands: &[View]) -> View {
        match &self.places[value.index()] {
            Some(place) if place.level == level && self.holds(place, value) => {
                self.planner.emitter.fired.note(Transformation::Placed);
                place.clone()
            }
            _ => match self.free_state(value, level).filter(|state| self.holds(state, value)) {
                Some(register) => {
                    self.planner.emitter.fired.note(Transformation::FreeState);
                    register
                }
                None => self.planner.reserve(self.graph, value, shape, level, operands),
            },
        }
    }

    /// Returns `true` if the elements of a view have the type in which the plan holds `value`.
    pub(super) fn holds(&self, view: &View, value: ValueId) -> bool {
        self.planner.emitter.ty(view) == self.planner.representation(self.graph, value)
    }
}
