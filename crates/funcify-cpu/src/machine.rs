//! Which instruction set runs the kernels: detected once, or chosen for a test.

use std::marker::PhantomData;

use pulp::{Arch, Scalar, Simd};

use crate::float::Float;

/// An instruction set that this processor has, and whether loops become machine code of it.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    arch: Arch,
    #[cfg_attr(not(feature = "jit"), expect(dead_code, reason = "machine code reads it"))]
    translation: Translation,
}

/// When loops over a few vectors become machine code, if the crate is built with its feature `jit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Translation {
    /// Never.
    Never,
    /// Where one call is expected to gain some tens of microseconds: making it takes a millisecond or so.
    #[default]
    Worthwhile,
    /// Wherever a loop can be. For tests.
    Always,
}

impl Machine {
    /// The widest vectors that the processor has.
    pub fn detect() -> Self {
        Machine::of(Arch::new())
    }

    /// No vectors at all: what processors without AVX2 or NEON run.
    pub fn plain() -> Self {
        Machine::of(Arch::Scalar)
    }

    /// Every instruction set that the engine has kernels for and this processor runs, the plain one first.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Machine::plain()];
        #[cfg(target_arch = "x86_64")]
        all.extend(pulp::x86::V3::try_new().map(|token| Machine::of(Arch::V3(token))));
        if !matches!(Arch::new(), Arch::Scalar) && !all.iter().any(|machine| machine.name() == Machine::detect().name())
        {
            all.push(Machine::detect());
        }
        all
    }

    fn of(arch: Arch) -> Self {
        Machine { arch, translation: Translation::default() }
    }

    /// The same, with another rule for machine code.
    pub fn translating(self, translation: Translation) -> Self {
        Machine { translation, ..self }
    }

    /// When loops become machine code: on vectors, which all round products and sums once.
    #[cfg(feature = "jit")]
    pub(crate) fn translation(self) -> Translation {
        if matches!(self.arch, Arch::Scalar) { Translation::Never } else { self.translation }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self.arch {
            Arch::Scalar => "plain",
            #[cfg(target_arch = "x86_64")]
            Arch::V3(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Arch::V4(_) => "AVX-512",
            #[cfg(target_arch = "aarch64")]
            Arch::Neon(_) => "NEON",
            _ => "vectors",
        }
    }

    /// How many elements a vector has.
    pub(crate) fn lanes<T: Float>(self) -> usize {
        struct Lanes<T>(PhantomData<T>);
        impl<T: Float> Work for Lanes<T> {
            type Output = usize;

            fn run<S: Simd>(self, _: S) -> usize {
                T::lanes::<S>()
            }
        }
        self.run(Lanes::<T>(PhantomData))
    }

    /// Runs `work` with the token of the instruction set. `work` itself is compiled without it: what it passes to
    /// `Simd::vectorize` is compiled with it.
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self.arch {
            #[cfg(target_arch = "x86_64")]
            Arch::V3(token) => work.run(token),
            #[cfg(target_arch = "x86_64")]
            Arch::V4(token) => work.run(token),
            #[cfg(target_arch = "aarch64")]
            Arch::Neon(token) => work.run(token),
            _ => work.run(Scalar::new()),
        }
    }
}

/// Something to run on any instruction set.
pub(crate) trait Work {
    /// What it gives.
    type Output;

    /// Runs it.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}
