//! What is stacked: outputs that alias, that depend on nothing, of other dtypes and ranks; parts of a trace.

use funcify::{DType, scan, stack};

use super::traced;
use crate::cases::{Programs, outputs};

pub(super) const PROGRAMS: Programs = &[
    (&["ys_independent_of_carry"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (carry, ys) = scan(init, xs, |c, x| (0.5 * c + x.sum(..), w * x.square()));
        outputs! { carry, ys }
    }),
    // The next carry is returned twice, the last one once.
    (&["ys_alias_carry"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (carry, (first, second, old)) = scan(init, xs, |c, x| {
            let new = (w * c + x).tanh();
            (new, (new, new, c))
        });
        outputs! { carry, first, second, old }
    }),
    (&["ys_alias_xs"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, ys) = scan(init, xs, |c, x| (c * x, x));
        outputs! { carry, ys }
    }),
    (&["constant_ys"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, ys) = scan(init, xs, |c, x| {
            let two = x.index(0, 0).ones_like() * 2.0;
            (c + x, stack(&[two, two - 3.0], 0))
        });
        outputs! { carry, ys }
    }),
    // An output of the loop that the program does not return.
    (&["unused_result"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (carry, (ys, _)) = scan(init, xs, |c, x| {
            let ghost = x.matmul(w);
            let c = 0.5 * c + x;
            (c, (c.square(), ghost))
        });
        outputs! { carry, ys }
    }),
    (&["last_ys_only"], |g| {
        let [init, xs, w] = g.get(["init", "xs", "w"]);
        let (_, ys) = scan(init, xs, |c, x| traced((w * c + x).sin()));
        outputs! { last: ys.index(0, -1) }
    }),
    (&["slice_of_ys"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (_, ys) = scan(init, xs, |c, x| traced(0.8 * c + x.square()));
        outputs! { middle: ys.slice(0, 2..5), single: ys.index(0, -2), strided: ys.slice_step(0, 1..8, 3) }
    }),
    (&["reduced_ys"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (_, ys) = scan(init, xs, |c, x| traced((c + x).tanh()));
        outputs! { total: ys.square().sum(..), mean: ys.mean(0) }
    }),
    // A scalar is carried, matrices are stacked.
    (&["outer_ys"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, ys) = scan(init, xs, |c, x| {
            let c = c + x.sum(..);
            (c, c * x.unsqueeze(1) * x.unsqueeze(0))
        });
        outputs! { carry, ys }
    }),
    // Integer outputs of a float loop.
    (&["int_ys"], |g| {
        let [init, xs] = g.get(["init", "xs"]);
        let (carry, (winner, positive, best)) = scan(init, xs, |c, x| {
            let c = 0.5 * c + x;
            let i = c.argmax(0);
            (c, (i, c.gt(0).cast(DType::I64).sum(0), c.take(0, i)))
        });
        outputs! { carry, winner, positive, best }
    }),
];
