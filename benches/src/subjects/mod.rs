//! Defines the subjects: the frameworks, handwritten loops and variants of funcify that run the workloads. Also builds
//! the program of a subject in a worker process.

mod by_hand;
mod compiled;
mod plugin;

use anyhow::{Result, bail};
use funcify::HostTensor;
use funcify::dispatch::{CompileOptions, LoopStrategy, Profile, Reference};
use funcify_burn::Burn;
use funcify_candle::Candle;
use funcify_cpu::Cpu;

use crate::workloads::{Loss, Sizes, Workload};

/// Every subject, in the order of the report. To add one, add an entry here.
pub(crate) const ALL: &[Subject] = &[
    subject("reference", Kind::Compiled(Device::Reference, CompileVariant::RAW_NATIVE), None),
    subject("cpu", Kind::Compiled(Device::Cpu, CompileVariant::DEFAULT), None),
    subject("candle-by-hand", Kind::Handwritten(Device::Candle), None),
    subject("candle-native", Kind::Compiled(Device::Candle, CompileVariant::RAW_NATIVE), Some("candle-by-hand")),
    subject("candle-unroll", Kind::Compiled(Device::Candle, CompileVariant::RAW_UNROLLED), Some("candle-by-hand")),
    subject("candle-rewritten", Kind::Compiled(Device::Candle, CompileVariant::REWRITTEN), Some("candle-by-hand")),
    subject("candle-compiled", Kind::Compiled(Device::Candle, CompileVariant::DEFAULT), Some("candle-by-hand")),
    subject("candle-plugin", Kind::Plugin(Device::Candle), Some("candle-by-hand")),
    subject("burn-flex-by-hand", Kind::Handwritten(Device::Flex), None),
    subject("burn-flex-native", Kind::Compiled(Device::Flex, CompileVariant::RAW_NATIVE), Some("burn-flex-by-hand")),
    subject("burn-flex-unroll", Kind::Compiled(Device::Flex, CompileVariant::RAW_UNROLLED), Some("burn-flex-by-hand")),
    subject("burn-flex-rewritten", Kind::Compiled(Device::Flex, CompileVariant::REWRITTEN), Some("burn-flex-by-hand")),
    subject("burn-flex-compiled", Kind::Compiled(Device::Flex, CompileVariant::DEFAULT), Some("burn-flex-by-hand")),
    subject("burn-flex-plugin", Kind::Plugin(Device::Flex), Some("burn-flex-by-hand")),
    subject("burn-ndarray-by-hand", Kind::Handwritten(Device::Ndarray), None),
    subject(
        "burn-ndarray-native",
        Kind::Compiled(Device::Ndarray, CompileVariant::RAW_NATIVE),
        Some("burn-ndarray-by-hand"),
    ),
    subject(
        "burn-ndarray-compiled",
        Kind::Compiled(Device::Ndarray, CompileVariant::DEFAULT),
        Some("burn-ndarray-by-hand"),
    ),
    subject("burn-ndarray-plugin", Kind::Plugin(Device::Ndarray), Some("burn-ndarray-by-hand")),
    subject("burn-wgpu-by-hand", Kind::Handwritten(Device::Wgpu), None),
    subject("burn-wgpu-native", Kind::Compiled(Device::Wgpu, CompileVariant::RAW_NATIVE), Some("burn-wgpu-by-hand")),
    subject("burn-wgpu-unroll", Kind::Compiled(Device::Wgpu, CompileVariant::RAW_UNROLLED), Some("burn-wgpu-by-hand")),
    subject("burn-wgpu-rewritten", Kind::Compiled(Device::Wgpu, CompileVariant::REWRITTEN), Some("burn-wgpu-by-hand")),
    subject("burn-wgpu-plugin", Kind::Plugin(Device::Wgpu), Some("burn-wgpu-by-hand")),
    subject("jax", Kind::Python, None),
    subject("torch-eager", Kind::Python, None),
    subject("torch-compile", Kind::Python, None),
    subject("pytensor", Kind::Python, None),
    subject("rlx", Kind::Rlx, None),
];

/// A subject that runs in an earlier build of this program.
#[derive(PartialEq, Eq)]
pub(crate) struct EarlierBuild {
    /// The path of the earlier build of this program.
    pub(crate) program: String,
    pub(crate) subject: &'static Subject,
}

/// A framework, handwritten loop or variant of funcify that runs workloads.
#[derive(PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The name of the subject that runs the handwritten loop in the same library, or `None` if this subject is not
    /// compared with a handwritten loop.
    pub(crate) instead_of: Option<&'static str>,
}

const fn subject(name: &'static str, kind: Kind, instead_of: Option<&'static str>) -> Subject {
    Subject { name, kind, instead_of }
}

impl Subject {
    /// Returns `true` if the subject belongs to another project and therefore runs only with `--peers`.
    pub(crate) fn is_peer(&self) -> bool {
        matches!(self.kind, Kind::Python | Kind::Rlx)
    }

    /// Returns `true` if the subject is one of funcify's variants.
    pub(crate) fn is_funcify(&self) -> bool {
        matches!(self.kind, Kind::Compiled(..) | Kind::Plugin(_))
    }

    /// Returns `true` if the subject runs the sizes for the plots. The plots exclude variants that are slow or add no
    /// information.
    pub(crate) fn is_in_plots(&self) -> bool {
        let is_left_out = |device: Device| matches!(device, Device::Reference | Device::Ndarray | Device::Wgpu);
        match self.kind {
            Kind::Compiled(device, variant) => !is_left_out(device) && variant != CompileVariant::REWRITTEN,
            Kind::Plugin(device) | Kind::Handwritten(device) => !is_left_out(device),
            Kind::Python | Kind::Rlx => true,
            Kind::EarlierBuild(earlier) => earlier.subject.is_in_plots(),
        }
    }

    /// Returns the subject with this name.
    pub(crate) fn named(name: &str) -> Result<&'static Subject> {
        match ALL.iter().find(|subject| subject.name == name) {
            Some(subject) => Ok(subject),
            None => {
                let names: Vec<&str> = ALL.iter().map(|subject| subject.name).collect();
                bail!("there is no subject `{name}`; available: {}", names.join(", "))
            }
        }
    }
}

/// The kind of implementation that a subject uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A compiled function on a backend's own tensors. In training, the compiled graph also computes the gradients.
    Compiled(Device, CompileVariant),
    /// A plug-in: the graph is a single op of the framework's autodiff, and `loss.backward()` differentiates it.
    Plugin(Device),
    /// A handwritten loop, with the framework's own autodiff.
    Handwritten(Device),
    /// A Python worker (`peers/worker.py`).
    Python,
    /// The rlx worker, which is written in Rust (`peers/rlx`).
    Rlx,
    /// A subject in an earlier build of this program.
    EarlierBuild(&'static EarlierBuild),
}

/// The options with which a function is compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompileVariant {
    strategy: LoopStrategy,
    is_rewritten: bool,
}

impl CompileVariant {
    /// The default: rewrites the graph, and compiles loops if the backend supports it.
    const DEFAULT: CompileVariant = CompileVariant { strategy: LoopStrategy::Auto, is_rewritten: true };
    const REWRITTEN: CompileVariant = CompileVariant { strategy: LoopStrategy::Native, is_rewritten: true };
    const RAW_NATIVE: CompileVariant = CompileVariant { strategy: LoopStrategy::Native, is_rewritten: false };
    const RAW_UNROLLED: CompileVariant = CompileVariant { strategy: LoopStrategy::Unroll, is_rewritten: false };

    fn options(self) -> CompileOptions {
        let default = CompileOptions { strategy: self.strategy, ..CompileOptions::default() };
        if self.is_rewritten { default } else { CompileOptions { rewrites: None, ..default } }
    }
}

/// The backend or device that holds the tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    Reference,
    Cpu,
    Candle,
    Flex,
    Ndarray,
    Wgpu,
}

impl Device {
    fn burn(self) -> Result<Burn> {
        Ok(match self {
            Device::Flex => Burn::flex(),
            Device::Ndarray => Burn::ndarray(),
            Device::Wgpu => Burn::wgpu()?,
            Device::Reference | Device::Cpu | Device::Candle => bail!("not a Burn device"),
        })
    }
}

/// The phase of a workload that a program runs: the forward pass, or a training step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Forward,
    Train,
}

impl Phase {
    pub(crate) const ALL: [Phase; 2] = [Phase::Forward, Phase::Train];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Forward => "forward",
            Phase::Train => "train",
        }
    }
}

/// A program that is ready to run on uploaded inputs.
pub(crate) trait Prepared {
    /// Runs the program, and waits until the results are computed.
    fn run(&mut self) -> Result<()>;

    /// Runs the program, and returns the results with their names.
    fn results(&mut self) -> Result<Vec<(String, HostTensor)>>;

    /// Runs the program once and returns its profile, or `None` if the program is not one of funcify's.
    fn profile(&mut self) -> Result<Option<Profile>> {
        Ok(None)
    }
}

/// A program that computes with a framework's own tensors.
struct Eager<C, W, H> {
    compute: C,
    /// Blocks until the device is idle.
    wait: W,
    /// Copies the results to host memory, with their names.
    to_host: H,
}

impl<R, C, W, H> Prepared for Eager<C, W, H>
where
    C: Fn() -> Result<R>,
    W: Fn() -> Result<()>,
    H: Fn(R) -> Result<Vec<(String, HostTensor)>>,
{
    fn run(&mut self) -> Result<()> {
        let results = (self.compute)()?;
        (self.wait)()?;
        drop(results);
        Ok(())
    }

    fn results(&mut self) -> Result<Vec<(String, HostTensor)>> {
        (self.to_host)((self.compute)()?)
    }
}

/// Waits until a Burn device is idle.
fn sync(burn: &Burn) -> Result<()> {
    burn.device().sync().map_err(|error| anyhow::anyhow!("{error:?}"))
}

/// Returns the reason why a subject does not support a workload or phase, or `None` if it does.
pub(crate) fn declines(subject: &Subject, workload: &Workload, phase: Phase) -> Option<String> {
    match (subject.kind, phase) {
        (Kind::EarlierBuild(earlier), _) => declines(earlier.subject, workload, phase),
        (_, Phase::Train) if workload.loss == Loss::None => Some("the workload has no gradient".into()),
        (Kind::Plugin(_), Phase::Forward) => Some("in the forward phase, a plug-in is the compiled function".into()),
        (Kind::Compiled(_, CompileVariant::RAW_UNROLLED), Phase::Train) if workload.is_conditional => {
            Some("the step count of the backward loop depends on the forward loop, so it is not unrolled".into())
        }
        _ => None,
    }
}

/// A workload to run, with its sizes, phase and inputs.
struct Task<'a> {
    workload: &'static Workload,
    sizes: Sizes,
    phase: Phase,
    inputs: &'a [(String, HostTensor)],
}

/// Builds the program of a subject for a workload. `inputs` are the inputs of the workload, in the order of the
/// graph's inputs.
pub(crate) fn prepare(
    subject: &Subject,
    workload: &'static Workload,
    sizes: Sizes,
    phase: Phase,
    inputs: &[(String, HostTensor)],
) -> Result<Box<dyn Prepared>> {
    match subject.kind {
        Kind::Compiled(device, variant) => {
            let (task, options) = (Task { workload, sizes, phase, inputs }, variant.options());
            match device {
                Device::Reference => compiled::prepare(&task, &Reference, options, |_| Ok(())),
                Device::Cpu => compiled::prepare(&task, &Cpu::default(), options, |_| Ok(())),
                Device::Candle => compiled::prepare(&task, &Candle::cpu(), options, |_| Ok(())),
                _ => compiled::prepare(&task, &device.burn()?, options, sync),
            }
        }
        Kind::Plugin(Device::Candle) => plugin::candle(workload, &sizes, inputs),
        Kind::Plugin(device) => plugin::burn(workload, &sizes, &device.burn()?, inputs),
        Kind::Handwritten(Device::Candle) => by_hand::candle(workload, sizes, phase, inputs),
        Kind::Handwritten(device) => by_hand::burn(workload, sizes, phase, &device.burn()?, inputs),
        Kind::Python | Kind::Rlx | Kind::EarlierBuild(_) => bail!("`{}` is not part of this program", subject.name),
    }
}
