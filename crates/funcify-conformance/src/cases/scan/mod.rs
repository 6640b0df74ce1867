//! Category `scan`: a carry, sequences, stacked outputs.

mod batched;
mod carries;
mod counts;
mod outputs;
mod running;
mod sequences;

use funcify::Value;

use super::Programs;
use {batched::*, carries::*, counts::*, outputs::*, running::*, sequences::*};

pub(super) const PROGRAMS: Programs = &[
    (&["cumsum", "cumsum_f64"], cumsum),
    (&["cumprod"], cumprod),
    (&["cummax"], cummax),
    (&["cumlogsumexp"], cumlogsumexp),
    (&["reverse_cumsum"], reverse_cumsum),
    (&["reverse_decay", "reverse_decay_f64"], reverse_decay),
    (&["reverse_step_index"], reverse_step_index),
    (&["geometric_no_xs"], geometric_no_xs),
    (&["step_index"], step_index),
    (&["step_index_no_xs"], step_index_no_xs),
    (&["zero_steps"], zero_steps),
    (&["zero_steps_no_xs"], zero_steps_no_xs),
    (&["one_step"], one_step),
    (&["one_step_no_xs"], one_step_no_xs),
    (&["ys_independent_of_carry"], ys_independent_of_carry),
    (&["carry_unchanged"], carry_unchanged),
    (&["ys_alias_carry"], ys_alias_carry),
    (&["exclusive_cumsum"], exclusive_cumsum),
    (&["ys_alias_xs"], ys_alias_xs),
    (&["constant_ys"], constant_ys),
    (&["unused_sequence"], unused_sequence),
    (&["unused_result"], unused_result),
    (&["captured_matrix", "captured_matrix_f64"], captured_matrix),
    (&["pytree_state"], pytree_state),
    (&["swap_carries"], swap_carries),
    (&["scan_axis1"], scan_axis1),
    (&["scan_last_axis_reverse"], scan_last_axis_reverse),
    (&["int_carry"], int_carry),
    (&["bool_carry"], bool_carry),
    (&["mixed_carry"], mixed_carry),
    (&["final_carry_only"], final_carry_only),
    (&["last_ys_only"], last_ys_only),
    (&["slice_of_ys"], slice_of_ys),
    (&["reduced_ys"], reduced_ys),
    (&["matrix_carry"], matrix_carry),
    (&["outer_ys"], outer_ys),
    (&["embedding_sum"], embedding_sum),
    (&["horner", "horner_f64"], horner),
    (&["welford"], welford),
    (&["capture_inside_and_outside"], capture_inside_and_outside),
    (&["chained_scans"], chained_scans),
    (&["masked_lengths", "masked_lengths_f64"], masked_lengths),
    (&["pointer_chase"], pointer_chase),
    (&["online_softmax", "online_softmax_f64"], online_softmax),
    (&["leaky_integrate_and_fire"], leaky_integrate_and_fire),
    (&["broadcast_scalar_rows"], broadcast_scalar_rows),
    (&["singleton_dimensions"], singleton_dimensions),
    (&["continued_fraction"], continued_fraction),
    (&["transposed_sequence"], transposed_sequence),
    (&["strided_sequence"], strided_sequence),
    (&["broadcast_sequence"], broadcast_sequence),
    (&["init_from_parameters"], init_from_parameters),
    (&["bool_sequence"], bool_sequence),
    (&["int_ys"], int_ys),
    (&["elementwise_300"], elementwise_300),
    (&["scalar_2000", "scalar_2000_f64"], scalar_2000),
    (&["log_space_400", "log_space_400_f64"], log_space_400),
    (&["vmap_scan"], vmap_scan),
    (&["vmap_scan_unbatched_init"], vmap_scan_unbatched_init),
    (&["vmap_of_vmap_scan"], vmap_of_vmap_scan),
];

/// What a body gives whose next carry is also its output.
fn traced(carry: Value) -> (Value, Value) {
    (carry, carry)
}
