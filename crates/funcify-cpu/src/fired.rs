//! Records the transformations that the planner applied, so that tests can check that every transformation is
//! exercised.

use std::cell::Cell;

/// Declares the transformations and their names.
macro_rules! transformations {
    ($($variant:ident $name:literal,)*) => {
        /// A transformation of the planner, or of the lowering of loops to register code.
        #[cfg_attr(not(feature = "jit"), expect(dead_code, reason = "machine code needs the feature `jit`"))]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Transformation { $($variant,)* }

        /// The names of all transformations, in the order of their declaration. For tests.
        #[doc(hidden)]
        pub const TRANSFORMATIONS: &[&str] = &[$($name,)*];
    };
}

transformations! {
    InPlace "elementwise op over its state",
    UpdateInPlace "update or scatter in the state's place",
    SumInPlace "sum of products in the state's place",
    Deferred "sum deferred to the end of a strip",
    StripCopy "copy for a strip",
    SharedStripCopy "copy for a strip, used again",
    FreeState "result over a state that is free",
    Placed "result written where it belongs",
    CarryInTrace "carry read from its trace",
    Swapped "carry in two registers",
    RowsAtHand "rows of a buffer at hand",
    JoinedRows "rows of several tensors, not joined",
    Joined "trace written where it is joined",
    Patches "tensors side by side, read in place",
    InitOfProduct "sum as the start of a product",
    ProductsAdded "products added in one instruction",
    ThenOfProduct "function of a product in its instruction",
    MulAdd "product and sum in one instruction",
    FoldOfProduct "fold of a product in one instruction",
    ExpOfProduct "exponential of a product in one instruction",
    Recurrence "loop as one instruction",
    PackedOnce "packed matrix, used again",
    LaidOnce "other layout, used again",
    OrderOfOperands "result in the order of its operands",
    OrderOfFold "result in the order that its fold reads",
    Parts "parts of a parallel axis",
    Share "sum of shares",
    Innermost "parallel axis innermost",
    Choice "choice by an element",
    Chosen "choice that is known",
    While "loop that a condition ends",
    EndsEarly "loop that ends early",
    MovedAside "copy aside before a move",
    Rounded "result rounded to a narrower type",
    Reversed "reversed view",
    NestedAxes "axes as loops in loops",
    StaticIntegers "integers known when the plan is made",
    Registers "loop as code for registers",
    MachineCode "loop as machine code",
}

thread_local! {
    /// The set of transformations that were applied in this thread, as a bit mask.
    static FIRED_IN_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The set of transformations applied to one plan, as a bit mask.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fired(u64);

impl Fired {
    pub(crate) fn note(&mut self, transformation: Transformation) {
        self.0 |= 1 << transformation as u64;
    }

    /// Adds this plan's transformations to the set of those applied in this thread.
    pub(crate) fn count(self) {
        FIRED_IN_THREAD.set(FIRED_IN_THREAD.get() | self.0);
    }
}

/// Returns the names of the transformations that were applied in this thread since the previous call. For tests.
#[doc(hidden)]
pub fn take_fired() -> Vec<&'static str> {
    let fired = FIRED_IN_THREAD.take();
    TRANSFORMATIONS.iter().enumerate().filter(|(index, _)| fired >> index & 1 == 1).map(|(_, name)| *name).collect()
}
