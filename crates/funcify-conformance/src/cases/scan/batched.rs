//! Scans under `vmap`.

use funcify::{VmapOptions, scan, vmap, vmap_with};

use crate::cases::{Programs, carry_as_output, outputs, program};

pub(super) const PROGRAMS: Programs = &[
    &program(&["vmap_scan"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ys) =
            vmap((init, xs), |(init, xs)| scan(init, xs, |c, x| carry_as_output((c.matmul(w) + x).tanh())));
        outputs! { carry, ys }
    }),
    // The initial carry is not batched, but the first step returns a batched carry.
    &program(&["vmap_scan_unbatched_init"], ["init", "xs", "w"], |[init, xs, w]| {
        let options = VmapOptions::new().in_axes([None, Some(1), Some(0)]);
        let (carry, ys) = vmap_with(options, (init, xs, w), |(init, xs, w)| {
            scan(init, xs, |c, x| {
                let c = c * w + x;
                (c, c.sum(0))
            })
        });
        outputs! { carry, ys }
    }),
    // A scan under two nested `vmap`s.
    &program(&["vmap_of_vmap_scan"], ["init", "xs", "w"], |[init, xs, w]| {
        let (carry, ys) = vmap(xs, |xs| {
            let options = VmapOptions::new().in_axes([Some(0), Some(1), Some(0)]);
            vmap_with(options, (init, xs, w), |(init, xs, w)| {
                scan(init, xs, |c, v| carry_as_output((c * w.index(0, 0)).sin() + v * w.index(0, 1)))
            })
        });
        outputs! { carry, ys }
    }),
];
