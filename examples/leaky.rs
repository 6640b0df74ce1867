//! Builds a loop once, prints it, and runs it on Candle and on Burn.

use funcify::prelude::*;
use funcify_burn::Burn;
use funcify_candle::Candle;

fn main() -> Result<()> {
    let leaky = Graph::build("leaky", |g| {
        let [xs, start] = [g.input("xs", "f32[T,2]"), g.input("start", "f32[2]")];
        let decay = g.input("decay", "f32[2]");
        scan(start, xs, |state, x| {
            let next = (state * decay + x).tanh();
            (next, next)
        })
    })?;
    println!("{leaky}");

    let xs = HostTensor::from([[0.5f32, 1.0], [-0.25, 0.0], [1.0, -1.0]]);
    let inputs = [xs, [0f32, 0.0].into(), [0.9f32, 0.5].into()];
    println!("candle {:?}", Function::compile(&leaky, &Candle::cpu())?.call_host(&inputs)?);
    println!("burn   {:?}", Function::compile(&leaky, &Burn::flex())?.call_host(&inputs)?);
    Ok(())
}
