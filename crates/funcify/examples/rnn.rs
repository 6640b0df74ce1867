use funcify::{Graph, Recurrence, scan};
fn main() {
    let g = Graph::build("rnn", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,B,2]"), g.input("h0", "f32[B,3]")];
        let [w, u] = [g.input("w", "f32[2,3]"), g.input("u", "f32[3,3]")];
        scan(h0, xs, |h, x| {
            let h = (x.matmul(w) + h.matmul(u)).tanh();
            (h, h)
        })
    }).unwrap();
    println!("{g}");
    let g = Graph::build("taps", |g| {
        let [start, buf, u] = [g.input("start", "f64[2]"), g.input("buf", "f64[6]"), g.input("u", "f64[9]")];
        let n = g.static_input("n", funcify::DType::I64);
        let mut r = Recurrence::new();
        let s = r.mit_sot(start, [-2, -1]);
        let m = r.mit_mot(buf, [0, 1], [1]);
        let u = r.sequence(u, [0, 2]);
        r.steps_value(n);
        let out = r.run(|step| {
            let [a, b] = step.read(&s);
            let [c, d] = step.read(&m);
            let [x, y] = step.read(&u);
            step.write(&s, a * 0.5 + b * x);
            step.write(&m, [c * y + d]);
            a + b
        });
        (out.trace(&s), out.buffer(&m), out.ys)
    }).unwrap();
    println!("{g}");
    let e = Graph::build("bad", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,2]"), g.input("h0", "f32[3]")];
        let w = g.input("w", "f32[4,3]");
        scan(h0, xs, |h, x| { let h = (x.matmul(w) + h).tanh(); (h, h) })
    }).unwrap_err();
    println!("{e}");
    let e = Graph::build("bad", |g| {
        let [xs, h0] = [g.input("xs", "f32[T,2]"), g.input("h0", "f32[]")];
        scan((h0, h0), xs, |(h, k), x| { let h = (x * h).tanh(); ((k, h), h) })
    }).unwrap_err();
    println!("{e}");
}
