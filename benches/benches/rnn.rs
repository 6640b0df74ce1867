//! A recurrent network forward, per backend and strategy, beside the loop that one would write by hand.
//!
//! Set `RAYON_NUM_THREADS=1` (or `2`): without it Candle's matrix product reads `/proc/cpuinfo` each time, in any loop.
//! Read the figures as ratios within one run.

use divan::{Bencher, black_box};
use funcify::dispatch::{Backend, LoopStrategy};
use funcify_benches::{Sizes, candle_by_hand, candle_inputs, prepared};
use funcify_burn::Burn;
use funcify_candle::Candle;

const SIZES: [Sizes; 2] =
    [Sizes { steps: 1000, batch: 1, width: 32 }, Sizes { steps: 250, batch: 32, width: 128 }];

fn main() {
    divan::main();
}

fn call<B: Backend>(bencher: Bencher<'_, '_>, backend: &B, strategy: LoopStrategy, sizes: Sizes) {
    let (function, inputs) = prepared(backend, strategy, sizes);
    bencher.bench_local(|| function.call(black_box(&inputs)).expect("the sizes agree"));
}

#[divan::bench(args = SIZES)]
fn candle_by_hand_loop(bencher: Bencher<'_, '_>, sizes: Sizes) {
    let inputs = candle_inputs(sizes);
    bencher.bench_local(|| candle_by_hand(black_box(&inputs)).expect("the sizes agree"));
}

#[divan::bench(args = SIZES)]
fn candle_unroll(bencher: Bencher<'_, '_>, sizes: Sizes) {
    call(bencher, &Candle::cpu(), LoopStrategy::Unroll, sizes);
}

#[divan::bench(args = SIZES)]
fn candle_native(bencher: Bencher<'_, '_>, sizes: Sizes) {
    call(bencher, &Candle::cpu(), LoopStrategy::Native, sizes);
}

#[divan::bench(args = SIZES)]
fn burn_flex_native(bencher: Bencher<'_, '_>, sizes: Sizes) {
    call(bencher, &Burn::flex(), LoopStrategy::Native, sizes);
}

#[divan::bench(args = SIZES)]
fn burn_flex_unroll(bencher: Bencher<'_, '_>, sizes: Sizes) {
    call(bencher, &Burn::flex(), LoopStrategy::Unroll, sizes);
}

#[divan::bench(args = SIZES)]
fn burn_ndarray_native(bencher: Bencher<'_, '_>, sizes: Sizes) {
    call(bencher, &Burn::ndarray(), LoopStrategy::Native, sizes);
}
