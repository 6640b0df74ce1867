//! Describes how a value changes from step to step, and which of its elements belong to each step.

use funcify_core::types::{Dim, Replacements, Shape, Sizes, Symbol};

/// The symbol that counts the steps, and its value for a single step.
pub(super) struct Time {
    pub(super) symbol: Symbol,
    /// The value that the symbol has when the loops run a single step. It is greater than 1 if a loop reads rows before
    /// its first step.
    pub(super) size: i64,
}

impl Time {
    /// Returns the symbol in a loop's number of steps, together with the value of the symbol for a single step. Returns
    /// `None` if `steps` is not a symbol plus a constant.
    pub(super) fn of(steps: &Dim) -> Option<Time> {
        let (symbol, size) = steps.solve(1)?;
        let others = steps.clone() - Dim::symbol(&symbol);
        others.constant().map(|_| Time { symbol, size })
    }

    /// Returns `true` if a dimension depends on the number of steps.
    pub(super) fn is_in(&self, dim: &Dim) -> bool {
        dim.symbols().contains(&&self.symbol)
    }

    /// Returns `true` if a shape depends on the number of steps.
    pub(super) fn is_in_shape(&self, shape: &Shape) -> bool {
        shape.dims().iter().any(|dim| self.is_in(dim))
    }

    /// Returns `true` if a dimension is the symbol that counts the steps, plus a constant.
    pub(super) fn counts_steps(&self, dim: &Dim) -> bool {
        (dim.clone() - Dim::symbol(&self.symbol)).constant().is_some()
    }

    /// Evaluates a dimension for a single step: substitutes [`size`](Time::size) for the symbol.
    pub(super) fn at_one_step(&self, dim: &Dim) -> Dim {
        dim.replaced(&Replacements::from([(self.symbol.clone(), Dim::from(self.size))]))
    }

    /// Returns the number of rows that each step sees of a value with `rows` rows, or `None` if that number is not
    /// constant.
    pub(super) fn window(&self, rows: &Dim) -> Option<usize> {
        self.at_one_step(rows).constant().and_then(|rows| usize::try_from(rows).ok())
    }

    pub(super) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::new();
        sizes.set(&self.symbol, self.size as usize);
        sizes
    }
}

/// The kind of a value: the way it changes from step to step (stepped-c1 to stepped-c3).
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Label {
    /// A value that is the same in each step.
    Fixed,
    /// A value with one row per step. Step `t` sees a window of rows, which starts with row `t` and has as many rows as
    /// the value has when the loops run a single step.
    Rows(RowLayout),
    /// A value such as the last carry of a loop. Each step computes the value that it would have if the program ended
    /// with that step.
    Latest,
}

/// The layout of a value's rows: in row-major order, the value consists of `before` blocks of `rows` rows each.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct RowLayout {
    pub(super) before: Dim,
    pub(super) rows: Dim,
}

impl RowLayout {
    /// Returns the layout of rows along an axis.
    pub(super) fn of(shape: &Shape, axis: usize) -> RowLayout {
        RowLayout { before: elements(&shape.dims()[..axis]), rows: shape[axis].clone() }
    }

    /// Returns the axis of the rows, or `None` if the rows are merged with other axes.
    pub(super) fn axis(&self, shape: &Shape) -> Option<usize> {
        let is_axis = |axis: &usize| shape[*axis] == self.rows && elements(&shape.dims()[..*axis]) == self.before;
        (0..shape.rank()).find(is_axis)
    }

    /// Returns the axis that contains the rows, possibly merged with the axes before and after them. Returns `None` if
    /// no single axis contains them.
    pub(super) fn containing_axis(&self, time: &Time, shape: &Shape) -> Option<usize> {
        let mut axes = (0..shape.rank()).filter(|axis| time.is_in(&shape[*axis]));
        let axis = axes.next().filter(|_| axes.next().is_none())?;
        let outer = self.before.divided_by(&elements(&shape.dims()[..axis]))?;
        shape[axis].divided_by(&(outer * self.rows.clone())).map(|_| axis)
    }

    /// Returns the layout of the rows after an op that turns axis `from.1` of shape `from.0` into axis `to.1` of shape
    /// `to.0`. Returns `None` if axis `from.1` does not contain the rows.
    pub(super) fn after_move(&self, from: (&Shape, usize), to: (&Shape, usize)) -> Option<RowLayout> {
        let outer = self.before.divided_by(&elements(&from.0.dims()[..from.1]))?;
        Some(RowLayout { before: elements(&to.0.dims()[..to.1]) * outer, rows: self.rows.clone() })
    }
}

fn elements(dims: &[Dim]) -> Dim {
    dims.iter().fold(Dim::from(1), |product, dim| product * dim.clone())
}
