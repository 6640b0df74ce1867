//! Loops that return only the last rows of a trace (scan-c7). Rewrites create such loops.

use std::sync::Arc;

use funcify::apply;
use funcify::ops::Scan;
use funcify::ops::scan::{Buffer, Returned, Sequence, Start};

use super::*;

pub(super) fn cases() -> Cases {
    let last = |count| Returned::Last(count);
    let four = || row([1f32, 2., 3., 4.]);
    all([
        sum("trimmed_all", false, Returned::All, four(), row([10f32, 11., 13., 16., 20.])),
        sum("trimmed_last_1", false, last(1), four(), row([20f32])),
        sum("trimmed_last_3", false, last(3), four(), row([13f32, 16., 20.])),
        sum("trimmed_last_5_is_all", false, last(5), four(), row([10f32, 11., 13., 16., 20.])),
        sum("trimmed_last_1_without_steps", false, last(1), empty::<f32, 1>([0]), row([10f32])),
        sum("trimmed_last_2_of_one_step", false, last(2), row([5f32]), row([10f32, 15.])),
        sum("trimmed_down_all", true, Returned::All, four(), row([20f32, 19., 17., 14., 10.])),
        sum("trimmed_down_last_2", true, last(2), four(), row([20f32, 19.])),
        sum("trimmed_down_last_1_without_steps", true, last(1), empty::<f32, 1>([0]), row([10f32])),
        // The loop returns the last four rows of a state, but the state has only three, so the call must be rejected.
        case("trimmed_last_4_of_two_steps", |g| last_rows_of_sum(g, false, Returned::Last(4)))
            .on([row([1f32, 2.]), row([10f32])])
            .fails("Rows"),
        // The loop returns the last three ys, but computes only two, so the call must be rejected as well.
        text(
            "trimmed_last_3_of_two_ys",
            "fn @edge(%xs: f32[T]) {
        %ys: f32[3] last 3 = scan @step {steps=T} {
            seq %x: f32[] = %xs[t]
            nit-sot %ys
            %y: f32[] = square %x
            %ys[t] = %y
        }
        return ys=%ys
    }",
        )
        .on([row([1f32, 2.])])
        .fails("Rows"),
        // In a reverse loop, the initial rows follow the computed rows.
        every_kind_of_buffer(false, row([9f32, 16.]), row([33f32, 15.]), row([3f32, 4., 5.]), 10.),
        every_kind_of_buffer(true, row([1f32, 4.]), row([35f32, 12.]), row([5f32, 4., 3.]), 4.),
        // A reverse loop returns the last rows of a state. The rows are matrices with symbolic sizes.
        text(
            "trimmed_rows_of_matrices",
            "fn @edge(%xs: f32[T,B,2], %init: f32[1,B,2]) {
        %rows: f32[2,B,2] last 2 = scan @step {steps=T, order=down} {
            seq %x: f32[B,2] = %xs[t]
            sit-sot %old: f32[B,2] = %rows[t+1] from %init
            %new: f32[B,2] = add %old, %x
            %rows[t] = %new
        }
        return rows=%rows
    }",
        )
        .on([tensor([3, 1, 2], [1f32, 10., 2., 20., 3., 30.]), tensor([1, 1, 2], [0f32, 0.])])
        .gives([("rows", tensor([2, 1, 2], [6f32, 60., 5., 50.]))]),
    ])
}

/// Applies a scan that computes a cumulative sum over T steps, and returns the rows of the trace that `returned`
/// selects.
fn last_rows_of_sum(g: &Builder, reverse: bool, returned: Returned) -> Outputs {
    let body = Graph::build("step", |g| g.input("x", "f32[]") + g.input("old", "f32[]"));
    let (reads, writes) = if reverse { (vec![1], vec![0]) } else { (vec![0], vec![1]) };
    let scan = Scan {
        body: Arc::new(body.unwrap_or_else(|_| Graph::new("step"))),
        steps: "T".into(),
        steps_operand: false,
        until: None,
        reverse,
        sequences: vec![Sequence { reads: vec![0] }],
        buffers: vec![Buffer { start: Start::Given(1), reads, writes, returned }],
        carries: 0,
        invariants: 0,
        unroll: 1,
        policy: None,
        truncate: None,
    };
    let operands = [g.input("xs", "f32[T]"), g.input("init", "f32[1]")];
    outputs! { rows: apply(scan, &operands)[0] }
}

fn sum(name: &str, reverse: bool, returned: Returned, xs: HostTensor, rows: HostTensor) -> OneCase {
    case(name, |g| last_rows_of_sum(g, reverse, returned)).on([xs, row([10f32])]).gives([("rows", rows)])
}

/// Builds a case with a loop that returns the last rows of its ys, of a mit-sot and of a full buffer, and the last
/// value of a carry.
fn every_kind_of_buffer(down: bool, ys: HostTensor, trace: HostTensor, sums: HostTensor, carry: f32) -> OneCase {
    let (suffix, order, before, written) =
        if down { ("_down", ", order=down", "t+3", "t") } else { ("", "", "t-3", "t+1") };
    let program = format!(
        "fn @edge(%xs: f32[T], %old: f32[3], %rows: f32[T+1], %zero: f32[]) {{
        %ys: f32[2] last 2, %trace: f32[2] last 2, %sums: f32[3] last 3, %c: f32[] = scan @step {{steps=T{order}}} {{
            seq %x: f32[] = %xs[t]
            nit-sot %ys
            mit-sot %s3: f32[] = %trace[{before}] from %old
            mit-mot %r0: f32[], %r1: f32[] = %sums[t], %sums[t+1] from %rows
            carry %before: f32[] = %c from %zero
            %y: f32[] = mul %x, %x
            %s: f32[] = add %s3, %x
            %r: f32[] = add %r0, %r1
            %next: f32[] = add %before, %r0
            %ys[t] = %y
            %trace[t] = %s
            %sums[{written}] = %r
            %c = %next
        }}
        return ys=%ys, trace=%trace, sums=%sums, c=%c
    }}"
    );
    let inputs = [row([1f32, 2., 3., 4.]), row([10f32, 20., 30.]), row([1f32; 5]), HostTensor::scalar(0f32)];
    let outputs = [("ys", ys), ("trace", trace), ("sums", sums), ("c", HostTensor::scalar(carry))];
    text(format!("trimmed_buffers_of_every_kind{suffix}"), &program).on(inputs).gives(outputs)
}
