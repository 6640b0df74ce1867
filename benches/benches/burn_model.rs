//! A training step of a Burn module's cell: the loop by hand on Burn's tape, and `funcify_burn::scan`, forward and backward.
//!
//! The items of the throughput are time steps: with a cost that is linear in their number it is the same in each row.

use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Distribution, Tensor};
use divan::Bencher;
use divan::counter::ItemsCount;
use funcify::Residuals;
use funcify_burn::{Burn, Scan};

const STEPS: [usize; 3] = [250, 1000, 4000];
const BATCH: usize = 8;
const WIDTH: usize = 64;

fn main() {
    divan::main();
}

#[derive(Module, Debug)]
struct Cell {
    input: Linear,
    hidden: Linear,
}

impl Cell {
    fn step(&self, h: Tensor<2>, x: Tensor<2>) -> Tensor<2> {
        (self.input.forward(x) + self.hidden.forward(h)).tanh()
    }
}

fn prepared(device: Device, steps: usize) -> (Cell, Tensor<2>, Tensor<3>) {
    let device = device.autodiff();
    let linear = || LinearConfig::new(WIDTH, WIDTH).init(&device);
    let xs = Tensor::random([steps, BATCH, WIDTH], Distribution::Default, &device);
    (Cell { input: linear(), hidden: linear() }, Tensor::zeros([BATCH, WIDTH], &device), xs)
}

/// The gradient by one of the weights, when the device has it.
fn gradient(cell: &Cell, hs: Tensor<3>) -> Tensor<2> {
    let gradient = cell.hidden.weight.grad(&hs.powi_scalar(2).mean().backward()).expect("the loss depends on it");
    gradient.device().sync().expect("the device works");
    gradient
}

fn by_hand(bencher: Bencher<'_, '_>, device: Device, steps: usize) {
    let (cell, init, xs) = prepared(device, steps);
    bencher.counter(ItemsCount::new(steps)).bench_local(|| {
        let (mut h, mut hs) = (init.clone(), Vec::with_capacity(steps));
        for x in xs.clone().iter_dim(0) {
            h = cell.step(h, x.squeeze_dim(0));
            hs.push(h.clone());
        }
        gradient(&cell, Tensor::stack(hs, 0))
    });
}

fn scanned(bencher: Bencher<'_, '_>, device: Device, steps: usize, residuals: Residuals) {
    let (cell, init, xs) = prepared(device, steps);
    let scan = Scan::new().residuals(residuals);
    let step = |cell: Cell, h, x| {
        let h = cell.step(h, x);
        (h.clone(), h)
    };
    bencher.counter(ItemsCount::new(steps)).bench_local(|| {
        let (_, hs) = scan.clone().run(&cell, init.clone(), xs.clone(), step).expect("the cell is recorded");
        gradient(&cell, hs)
    });
}

#[divan::bench(args = STEPS)]
fn flex_by_hand(bencher: Bencher<'_, '_>, steps: usize) {
    by_hand(bencher, Device::flex(), steps);
}

#[divan::bench(args = STEPS)]
fn flex_scan(bencher: Bencher<'_, '_>, steps: usize) {
    scanned(bencher, Device::flex(), steps, Residuals::SaveAll);
}

#[divan::bench(args = STEPS)]
fn flex_scan_recomputing(bencher: Bencher<'_, '_>, steps: usize) {
    scanned(bencher, Device::flex(), steps, Residuals::Recompute);
}

#[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
#[divan::bench(args = STEPS)]
fn ndarray_by_hand(bencher: Bencher<'_, '_>, steps: usize) {
    by_hand(bencher, Device::ndarray(), steps);
}

#[allow(deprecated, reason = "Burn deprecates its ndarray device; it is supported here as long as Burn has it")]
#[divan::bench(args = STEPS)]
fn ndarray_scan(bencher: Bencher<'_, '_>, steps: usize) {
    scanned(bencher, Device::ndarray(), steps, Residuals::SaveAll);
}

/// Where there is a device.
#[divan::bench(args = [250, 4000], sample_count = 3)]
fn wgpu_scan(bencher: Bencher<'_, '_>, steps: usize) {
    if let Ok(burn) = Burn::wgpu() {
        scanned(bencher, burn.device().clone(), steps, Residuals::SaveAll);
    }
}
