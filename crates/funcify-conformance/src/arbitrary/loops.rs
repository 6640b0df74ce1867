//! Adds loops to a random program: `scan`, `scan_until`, `fori_loop`, `map`.

use funcify::prelude::*;
use funcify::{MapOptions, map_with, scan_until_with};

use super::program_builder::{Entry, MAX_CARRY, ProgramBuilder};

impl ProgramBuilder<'_> {
    /// Picks the initial carries of a loop: one or two floats, and sometimes an integer and a boolean.
    pub(super) fn states(&mut self) -> Vec<Value> {
        let mut states = Vec::new();
        for _ in 0..1 + self.choices.below(2) {
            let Entry { value, bound, .. } = self.float();
            let is_small = value.rank() <= 2 && self.has_known_sizes(&value.ty());
            let (value, bound) = if is_small { (value, bound) } else { (value.sum(..), 9.0 * bound) };
            states.push(self.limit_magnitude(value, bound, MAX_CARRY).0);
        }
        if self.choices.one_in(4) {
            let picked = self.pick(|ty| ty.dtype == DType::I64 && ty.rank() <= 1);
            let picked = picked.filter(|entry| self.has_known_sizes(&entry.value.ty()));
            states.push(picked.map_or_else(|| constant(0i64), |entry| entry.value));
        }
        if self.choices.one_in(6) {
            states.push(self.boolean());
        }
        states
    }

    /// Returns a scope entry for each carry, so that a body can use the carry. Each entry has a bound on the carry's
    /// magnitude.
    pub(super) fn state_entries(states: &[Value]) -> Vec<Entry> {
        states
            .iter()
            .map(|state| ProgramBuilder::entry(*state, if state.dtype() == DType::F64 { MAX_CARRY } else { 9.0 }))
            .collect()
    }

    /// Computes the next value of a carry.
    pub(super) fn next_carry(&mut self, state: Value) -> Value {
        let ty = state.ty();
        match ty.dtype {
            DType::Bool => match self.choices.below(3) {
                0 => !state,
                1 => state | self.booleans(&ty.shape),
                _ => state ^ self.booleans(&ty.shape),
            },
            DType::F64 => {
                let new = self.float_of_shape(&ty.shape);
                let (new, bound) = self.limit_magnitude(new.value, new.bound, MAX_CARRY);
                match self.choices.below(4) {
                    0 => state * 0.6 + new * (0.8 / bound.max(1.0)),
                    1 => new,
                    2 => state * new * (1.0 / bound.max(1.0)),
                    _ => (state + new).sin(),
                }
            }
            _ => match self.choices.below(3) {
                0 => state + 1,
                1 => (state * 3 + self.integers(&ty.shape)) % 5,
                _ => state + self.booleans(&ty.shape).cast(ty.dtype),
            },
        }
    }

    /// Computes the next values of all carries.
    pub(super) fn next_carries(&mut self, states: &[Value]) -> Vec<Value> {
        states.iter().map(|state| self.next_carry(*state)).collect()
    }

    /// Picks up to `most` values as the ys of a body, with shapes that can be stacked.
    pub(super) fn pick_ys(&mut self, most: usize) -> Vec<Entry> {
        let fits = |ty: &TensorType| ty.rank() <= 2 && ty.shape.dims().iter().all(|dim| !is_bound_by_loop(dim));
        let count = self.choices.below(most + 1);
        let entries = (0..count).filter_map(|_| match self.choices.one_in(5) {
            true => self.pick(|ty| fits(ty) && ty.dtype != DType::F64),
            false => self.pick(|ty| fits(ty) && ty.dtype == DType::F64),
        });
        entries.collect()
    }

    /// Picks one or two sequences with the same number of rows. Returns no sequences if none are in scope.
    fn rows(&mut self) -> Vec<Entry> {
        let Some(first) = self.pick(|ty| ty.rank() >= 1 && ty.dtype == DType::F64) else { return Vec::new() };
        let rows = first.value.dim(0);
        let mut all = vec![first];
        if self.choices.one_in(2) {
            all.extend(self.pick(|ty| ty.rank() >= 1 && ty.rank() <= 3 && ty.shape[0] == rows));
        }
        all
    }

    /// Picks a number of steps: a constant, or a symbol that sequences may also use for their number of rows.
    pub(super) fn length(&mut self) -> Dim {
        self.choices.pick(&[Dim::from(2), Dim::from("N"), Dim::from(3), Dim::from("T"), Dim::from(1), Dim::from(0)])
    }

    fn options(&mut self) -> ScanOptions {
        let options = ScanOptions::new().unroll(self.choices.pick(&[1, 1, 2]));
        if self.choices.one_in(3) { options.reverse() } else { options }
    }
}

/// Returns `true` if the dimension uses a symbol that a loop binds. The dimension's size is then unknown when the
/// program starts.
pub(super) fn is_bound_by_loop(dim: &Dim) -> bool {
    dim.symbols().iter().any(|symbol| symbol.name().starts_with('$'))
}

/// Returns a scope entry for each row in `values`, so that a body can use the row. Each entry has the same bound as the
/// matching entry in `rows`.
fn row_entries(rows: &[Entry], values: &[Value]) -> Vec<Entry> {
    rows.iter().zip(values).map(|(row, value)| ProgramBuilder::entry(*value, row.bound)).collect()
}

fn add_all(builder: &mut ProgramBuilder<'_>, states: Vec<Value>, ys: Vec<Value>, bounds: &[f64]) {
    for state in states {
        builder.add(state, MAX_CARRY);
    }
    for (y, bound) in ys.into_iter().zip(bounds) {
        builder.add(y, *bound);
    }
}

/// Adds a scan with a carry.
pub(super) fn scan(builder: &mut ProgramBuilder<'_>) {
    builder.count("scan");
    let init = builder.states();
    let rows = if builder.choices.below(4) < 3 { builder.rows() } else { Vec::new() };
    let options = match rows.is_empty() {
        true => builder.options().length(builder.length()),
        false => builder.options(),
    };
    let mut bounds = Vec::new();
    let xs: Vec<Value> = rows.iter().map(|row| row.value).collect();
    let (states, ys) = scan_with(options, init, xs, |states, xs| {
        let params = [ProgramBuilder::state_entries(&states), row_entries(&rows, &xs)].concat();
        builder.build_body(params, |builder| {
            let next = builder.next_carries(&states);
            let ys = builder.pick_ys(2);
            bounds = ys.iter().map(|entry| entry.bound).collect();
            (next, ys.iter().map(|entry| entry.value).collect::<Vec<_>>())
        })
    });
    add_all(builder, states, ys, &bounds);
}

/// Adds a scan with an early exit.
pub(super) fn scan_until(builder: &mut ProgramBuilder<'_>) {
    builder.count("scan_until");
    let init = builder.states();
    let rows = if builder.choices.below(3) < 2 { builder.rows() } else { Vec::new() };
    let options = match rows.is_empty() {
        true => builder.options().length(builder.length()),
        false => builder.options(),
    };
    let options = if builder.choices.one_in(3) { options.reverse() } else { options };
    let mut bounds = Vec::new();
    let xs: Vec<Value> = rows.iter().map(|row| row.value).collect();
    let (states, ys) = scan_until_with(options, init, xs, |states, xs| {
        let params = [ProgramBuilder::state_entries(&states), row_entries(&rows, &xs)].concat();
        builder.build_body(params, |builder| {
            let next = builder.next_carries(&states);
            let ys = builder.pick_ys(2);
            bounds = ys.iter().map(|entry| entry.bound).collect();
            let stop = builder.boolean();
            (next, ys.iter().map(|entry| entry.value).collect::<Vec<_>>(), stop)
        })
    });
    add_all(builder, states, ys, &bounds);
}

/// Adds a `fori_loop`. Its trip count may be computed at run time.
pub(super) fn counted_loop(builder: &mut ProgramBuilder<'_>) {
    builder.count("fori_loop");
    let init = builder.states();
    let body = |builder: &mut ProgramBuilder<'_>, i: Value, states: Vec<Value>| {
        let params = [ProgramBuilder::state_entries(&states), vec![ProgramBuilder::entry(i, 4.0)]].concat();
        builder.build_body(params, |builder| builder.next_carries(&states))
    };
    let states = match builder.choices.below(3) {
        0 => fori_loop(0, 2, init, |i, states| body(builder, i, states)),
        1 => fori_loop(1, Dim::from("N") + 1, init, |i, states| body(builder, i, states)),
        _ => {
            builder.count("fori_loop_computed");
            let upper = builder.integer_to(3);
            fori_loop(0, upper, init, |i, states| body(builder, i, states))
        }
    };
    add_all(builder, states, Vec::new(), &[]);
}

/// Adds a map over rows, with or without chunks.
pub(super) fn map_rows(builder: &mut ProgramBuilder<'_>) {
    let rows = builder.rows();
    if rows.is_empty() {
        return;
    }
    let mut bounds = Vec::new();
    let xs: Vec<Value> = rows.iter().map(|row| row.value).collect();
    let body = |builder: &mut ProgramBuilder<'_>, bounds: &mut Vec<f64>, xs: &[Value]| {
        builder.build_body(row_entries(&rows, xs), |builder| {
            let mut ys = builder.pick_ys(1);
            ys.push(builder.number());
            *bounds = ys.iter().map(|entry| entry.bound).collect();
            ys.iter().map(|entry| entry.value).collect::<Vec<_>>()
        })
    };
    let ys = match builder.choices.below(2) {
        0 => {
            builder.count("map");
            map(xs, |xs| body(builder, &mut bounds, &xs))
        }
        _ => {
            builder.count("map_chunks");
            let options = MapOptions::new().chunk(builder.choices.pick(&[2, 1, 3]));
            map_with(options, xs, |xs| body(builder, &mut bounds, &xs))
        }
    };
    add_all(builder, Vec::new(), ys, &bounds);
}
