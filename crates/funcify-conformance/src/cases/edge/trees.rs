//! Carries, rows and ys that are trees of every kind.

use std::collections::BTreeMap;

use super::*;

pub(super) fn cases() -> Cases {
    all([
        // The carry, the rows and the ys are `Vec`s.
        case("tree_vec", |g| {
            let init = vec![g.input("a", "f32[]"), g.input("b", "f32[]")];
            let xs = vec![g.input("xs", "f32[2]"), g.input("zs", "f32[2]")];
            let (last, ys) = scan(init, xs, |c, x| (vec![c[1], c[0] + x[0]], vec![c[0], c[1], x[1]]));
            outputs! { last0: last[0], last1: last[1], y0: ys[0], y1: ys[1], y2: ys[2] }
        })
        .on([scalar(1f32), scalar(2f32), row([10f32, 20.]), row([5f32, 6.])])
        .gives([
            ("last0", scalar(11f32)),
            ("last1", scalar(22f32)),
            ("y0", row([1f32, 2.])),
            ("y1", row([2f32, 11.])),
            ("y2", row([5f32, 6.])),
        ]),
        // One element of the carry is `Some`, and the other is `None`.
        case_on("tree_option", [("a: f32[]", scalar(2f32)), ("xs: f32[3]", row([1f32, 2., 3.]))])
            .runs(|[a, xs]| {
                let init: (Option<Value>, Option<Value>) = (Some(a), None);
                let (last, ys) = scan(init, Some(xs), |(there, absent), x| {
                    let next = there.zip(x).map(|(there, x)| there * x);
                    ((next, absent), next)
                });
                (last, ys)
            })
            .gives([("out_0_0", scalar(12f32)), ("out_1", row([2f32, 4., 12.]))]),
        // The carry and the ys are maps, whose leaves are in the order of the keys.
        case("tree_map", |g| {
            let (up, down) = (g.input("up", "f32[]"), g.input("down", "f32[]"));
            let init = BTreeMap::from([("up", up), ("down", down)]);
            let (last, ys) = scan(init, g.input("xs", "f32[2]"), |c, x| {
                let next = BTreeMap::from([("up", c["up"] + x), ("down", c["down"] - x)]);
                (next.clone(), BTreeMap::from([("product", next["up"] * next["down"])]))
            });
            outputs! { up: last["up"], down: last["down"], product: ys["product"] }
        })
        .on([scalar(0f32), scalar(10f32), row([1f32, 2.])])
        .gives([("up", scalar(3f32)), ("down", scalar(7f32)), ("product", row([9f32, 21.]))]),
        // The carry is a tuple of an array with a and b, a unit value, and a `Box` with c. The successive values of (a,
        // b, c) are (1, 2, 0), (2, 11, 1), (11, 22, 3) and (22, 41, 14).
        case("tree_array", |g| {
            let init = ([g.input("a", "f32[]"), g.input("b", "f32[]")], (), Box::new(g.input("c", "f32[]")));
            let (([a, b], (), c), ()) = scan(init, g.input("xs", "f32[3]"), |([a, b], nothing, c), x| {
                (([b, a + x], nothing, Box::new(*c + a)), ())
            });
            outputs! { a, b, c: *c }
        })
        .on([scalar(1f32), scalar(2f32), scalar(0f32), row([10f32, 20., 30.])])
        .gives([("a", scalar(22f32)), ("b", scalar(41f32)), ("c", scalar(14f32))]),
        // The carry of a scan is a struct that derives `Tree`.
        derived("tree_derived", |g| {
            scan(Cell::start(g), g.input("xs", "f32[T]"), |cell, x| (cell.next(x), ())).0.outputs()
        }),
        // The carry of a recurrence is a struct that derives `Tree`.
        derived("tree_derived_carry_of_a_recurrence", |g| {
            let mut loop_ = Recurrence::new();
            let cell = loop_.carry(Cell::start(g));
            let x = loop_.sequence(g.input("xs", "f32[T]"), [0]);
            let done = loop_.run(|step| {
                let ([x], old) = (step.read(&x), step.read(&cell));
                step.write(&cell, old.next(x));
            });
            done.last(&cell).outputs()
        }),
    ])
}

/// The state of a recurrent cell, with fields of several kinds.
#[derive(Tree, Clone)]
struct Cell {
    hidden: Value,
    gates: Gates,
    history: Vec<Value>,
    bias: Option<Value>,
}

#[derive(Tree, Clone, Copy)]
struct Gates(Value, [Value; 2]);

impl Cell {
    fn start(g: &Builder) -> Cell {
        let [hidden, gate, left, right] = ["hidden", "gate", "left", "right"].map(|name| g.input(name, "f32[]"));
        Cell { hidden, gates: Gates(gate, [left, right]), history: vec![hidden, hidden], bias: None }
    }

    /// Returns the next state: adds the first gate times `x` to `hidden`, rotates the gates, and shifts the history.
    fn next(self, x: Value) -> Cell {
        let Gates(gate, [left, right]) = self.gates;
        Cell {
            hidden: self.hidden + gate * x,
            gates: Gates(left, [right, gate]),
            history: vec![self.history[1], self.hidden],
            bias: self.bias,
        }
    }

    fn outputs(self) -> crate::cases::Outputs {
        let Gates(gate, [left, right]) = self.gates;
        outputs! { hidden: self.hidden, gate, left, right, old: self.history[1], older: self.history[0] }
    }
}

/// Builds a case whose program runs a [`Cell`] over the sequence 1, 10, 100, 1000. `hidden` starts at 0 and the gates
/// start at 1, 2 and 3, so `hidden` takes the values 1, 21, 321 and 1321.
fn derived(name: &str, program: impl FnOnce(&Builder) -> crate::cases::Outputs) -> OneCase {
    case(name, program)
        .on([scalar(0f32), scalar(1f32), scalar(2f32), scalar(3f32), row([1f32, 10., 100., 1000.])])
        .gives([
            ("hidden", scalar(1321f32)),
            ("gate", scalar(2f32)),
            ("left", scalar(3f32)),
            ("right", scalar(1f32)),
            ("old", scalar(321f32)),
            ("older", scalar(21f32)),
        ])
}
