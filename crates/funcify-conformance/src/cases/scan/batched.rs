//! Batched scans, written as programs over whole batches.

use funcify::{ScanOptions, scan, scan_with};

use super::traced;
use crate::cases::{Inputs, Outputs, outputs};

pub(super) fn vmap_scan(g: &Inputs<'_>) -> Outputs {
    let [init, xs, w] = g.get(["init", "xs", "w"]);
    let (carry, ys) = scan_with(ScanOptions::new().axis(1), init, xs, |c, x| traced((c.matmul(w) + x).tanh()));
    outputs! { carry, ys: ys.move_axis(0, 1) }
}

pub(super) fn vmap_scan_unbatched_init(g: &Inputs<'_>) -> Outputs {
    let [init, xs, w] = g.get(["init", "xs", "w"]);
    let (carry, ys) = scan(init.broadcast_to(w.shape()), xs, |c, x| {
        let c = c * w + x.unsqueeze(1);
        (c, c.sum(1))
    });
    outputs! { carry, ys: ys.t() }
}

/// The carry has both batch axes, the weights only the inner one.
pub(super) fn vmap_of_vmap_scan(g: &Inputs<'_>) -> Outputs {
    let [init, xs, w] = g.get(["init", "xs", "w"]);
    let start = init.broadcast_to([xs.dim(0), xs.dim(2)]);
    let (carry, ys) =
        scan_with(ScanOptions::new().axis(1), start, xs, |c, x| traced((c * w.index(1, 0)).sin() + x * w.index(1, 1)));
    outputs! { carry, ys: ys.move_axis(0, -1) }
}
