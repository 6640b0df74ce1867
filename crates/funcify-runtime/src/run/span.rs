//! Creates a span of the `tracing` crate for each compiled program, each call and each instruction, if the feature
//! `tracing` is enabled.
//!
//! Without the feature, a span is a unit struct that does nothing.

use funcify_core::error::Place;

/// A span that ends when it is dropped.
#[cfg(feature = "tracing")]
pub(crate) type Span = tracing::span::EnteredSpan;

/// A span that does nothing.
#[cfg(not(feature = "tracing"))]
#[must_use]
pub(crate) struct Span;

/// Enters a span `funcify.compile`, which lasts while a program is being compiled.
pub(crate) fn of_compilation(function: &str) -> Span {
    #[cfg(feature = "tracing")]
    return tracing::info_span!("funcify.compile", function).entered();
    #[cfg(not(feature = "tracing"))]
    {
        let _ = function;
        Span
    }
}

/// Enters a span `funcify.call`, which lasts for one call to a function.
pub(crate) fn of_call(function: &str, backend: &str) -> Span {
    #[cfg(feature = "tracing")]
    return tracing::info_span!("funcify.call", function, backend).entered();
    #[cfg(not(feature = "tracing"))]
    {
        let _ = (function, backend);
        Span
    }
}

/// Enters a span `funcify.op`, which lasts for one instruction. The span has the level `TRACE`, and records the op and
/// the user's source line.
#[inline]
pub(crate) fn of_instruction(place: impl FnOnce() -> Place) -> Span {
    #[cfg(feature = "tracing")]
    {
        if !tracing::enabled!(tracing::Level::TRACE) {
            return tracing::Span::none().entered();
        }
        let place = place();
        tracing::trace_span!("funcify.op", op = place.op, line = %place.site).entered()
    }
    #[cfg(not(feature = "tracing"))]
    {
        let _ = place;
        Span
    }
}

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use crate::{Function, Reference};
    use funcify_core::{Graph, scan};

    /// A subscriber that records the names of new spans.
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl Subscriber for Names {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut names = self.0.lock().unwrap();
            names.push(span.metadata().name());
            Id::from_u64(names.len() as u64)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn making_calling_and_each_op_are_spans() {
        let graph =
            Graph::build("sums", |g| scan(g.input("c", "f32[]"), g.input("xs", "f32[2]"), |c, x| (c + x, ())).0);
        let names: Arc<Mutex<Vec<&'static str>>> = Arc::default();
        tracing::subscriber::with_default(Names(names.clone()), || {
            let function = Function::compile(&graph.unwrap(), &Reference).unwrap();
            function.call_host(&[1f32.into(), [2f32, 3.].into()]).unwrap();
        });
        let names = names.lock().unwrap();
        let count = |name: &str| names.iter().filter(|other| **other == name).count();
        // The three ops are the loop and one addition in each of its two steps.
        assert_eq!((count("funcify.compile"), count("funcify.call"), count("funcify.op")), (1, 1, 3));
    }
}
