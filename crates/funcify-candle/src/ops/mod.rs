//! The conversions: one file an op of the core, or a table of elementwise ops, named like the op's file.

mod argmax;
mod binary;
mod broadcast;
mod cast;
mod compare;
mod concat;
mod constant;
mod dynamic_slice;
mod dynamic_update;
mod gather;
mod iota;
mod matmul;
mod pad;
mod reduce;
mod reshape;
mod reverse;
mod scan;
mod scatter;
mod select;
mod size;
mod slice;
mod take;
mod transpose;
mod unary;
