//! Selects the instruction set that the kernels use: by default the one with the widest vectors, or another one for a
//! test.

use std::marker::PhantomData;

use pulp::{Arch, Scalar, Simd};

use crate::float::Float;

/// An instruction set of this processor, and a policy for translating loops to machine code.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    arch: Arch,

    translation: Translation,
}

/// The policy for translating loops over a few vectors to machine code. It has no effect without the feature `jit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Translation {
    /// Never translates.
    Never,
    /// Translates a loop if that saves at least about 20 microseconds per call. (Translation takes about a
    /// millisecond.)
    #[default]
    Worthwhile,
    /// Translates every supported loop, for tests.
    Always,
}

impl Machine {
    /// Returns the instruction set with the widest vectors that this processor supports.
    pub fn detect() -> Self {
        Machine::of(Arch::new())
    }

    /// Returns the scalar instruction set. Processors without AVX2 or NEON use it.
    pub fn plain() -> Self {
        Machine::of(Arch::Scalar)
    }

    /// Returns all instruction sets that both the kernels and this processor support, starting with the scalar one.
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

    /// Returns this instruction set with the given policy for translating loops to machine code.
    pub fn with_translation(self, translation: Translation) -> Self {
        Machine { translation, ..self }
    }

    /// Returns the policy for translating loops to machine code. For the scalar instruction set, this is always
    /// `Never`, because the machine code requires a fused multiply-add, which all other instruction sets have.
    pub fn translation(self) -> Translation {
        if matches!(self.arch, Arch::Scalar) { Translation::Never } else { self.translation }
    }

    /// Returns the usual name of the instruction set, such as `AVX2`.
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

    /// Returns the number of elements of type `T` in a vector.
    pub fn lanes<T: Float>(self) -> usize {
        struct Lanes<T>(PhantomData<T>);
        impl<T: Float> Work for Lanes<T> {
            type Output = usize;

            fn run<S: Simd>(self, _: S) -> usize {
                T::lanes::<S>()
            }
        }
        self.run(Lanes::<T>(PhantomData))
    }

    /// Runs `work` with `pulp`'s token for the instruction set. `work` itself is not compiled for that instruction set;
    /// only code that it passes to `Simd::vectorize` is.
    pub fn run<W: Work>(self, work: W) -> W::Output {
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

/// Work that can run with any instruction set.
pub trait Work {
    /// The result of the work.
    type Output;

    /// Runs the work with the instruction set of `simd`.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}
