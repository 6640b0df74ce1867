//! The lowering rules of the toy backend, for some of funcify's ops and for a third-party op.

use funcify::funcify;
use funcify::ops::{Add, Broadcast, Mul, Neg, Scan, Sub, Tanh};

use super::Toy;
use crate::softplus::{Softplus, softplus_of};

funcify!(Toy, Scan, native_loop);
funcify!(Toy, Add, |_call, [x, y]| x.zip(&y, |x, y| x + y));
funcify!(Toy, Sub, |_call, [x, y]| x.zip(&y, |x, y| x - y));
funcify!(Toy, Mul, |_call, [x, y]| x.zip(&y, |x, y| x * y));
funcify!(Toy, Neg, |_call, [x]| x.map(|x| -x));
funcify!(Toy, Tanh, |_call, [x]| x.map(f64::tanh));
funcify!(Toy, Broadcast, |call, [x]| x.broadcast(&call.shape(&call.op.shape)?));
funcify!(Toy, Softplus, |call, [x]| x.map(|x| softplus_of(x, call.op.beta)));
