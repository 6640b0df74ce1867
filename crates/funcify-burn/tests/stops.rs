//! Scratch.
#![cfg(feature = "flex")]
use burn::tensor::{Device, Tensor, activation::sigmoid};

fn num(t: Option<Tensor<1>>) -> String {
    t.map_or("none".into(), |t| format!("{:?}", t.into_data().try_into_vec::<f32>().unwrap()))
}

#[test]
fn scratch() {
    let device = Device::flex().autodiff();
    let xs = Tensor::<2>::from_data([[1.0], [2.0], [3.0]], &device);
    let start = Tensor::<1>::zeros([1], &device);
    for (name, kind) in [("detach of a weight", 0), ("detach of the carry", 1), ("set_require_grad(false)", 2), ("straight-through", 3)] {
        let body = move |w: Tensor<1>, c: Tensor<1>, x: Tensor<1>| match kind {
            0 => c + w.clone().detach() * w * x,
            1 => c.detach() * w.clone() + w * x,
            2 => c + w.clone().set_require_grad(false) * w * x,
            _ => {
                let v = w * x - 2.5;
                let (hard, soft) = (v.clone().greater_elem(0.0).float(), sigmoid(v));
                c + (hard - soft.clone()).detach() + soft
            }
        };
        let w = Tensor::<1>::from_data([2.0], &device).require_grad();
        let mut c = start.clone();
        for x in xs.clone().iter_dim(0) {
            c = body(w.clone(), c, x.squeeze_dim(0));
        }
        let by_hand = w.grad(&c.clone().sum().backward());
        match funcify_burn::scan(w.clone(), start.clone(), xs.clone(), move |w, c, x| (body(w, c, x), ())) {
            Ok((d, ())) => {
                let ours = w.grad(&d.clone().sum().backward());
                println!("{name}: by hand {} dw {}   funcify {} dw {}", num(Some(c)), num(by_hand), num(Some(d)), num(ours));
            }
            Err(e) => println!("{name}: {e}"),
        }
    }
    let traced = funcify_burn::trace((), (Tensor::<1>::from_data([2.0], &device),), |(), (x,): (Tensor<1>,)| x.clone().detach() * x);
    match traced {
        Ok(traced) => println!("{}", traced.graph()),
        Err(e) => println!("{e}"),
    }
}
