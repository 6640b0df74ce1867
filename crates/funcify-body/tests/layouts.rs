//! Tests that streams of any layout are loaded and stored correctly.

mod common;

use common::{Memory, Random};
use funcify_body::{Body, Fused, Machine, Tiles, Type};
use pulp::bytemuck::Pod;

/// Copies one stream to another, and compares the copy with the result of a naive loop.
fn check<E: Pod + PartialEq>(ty: Type, sizes: &[usize], [from, to]: [&[isize]; 2], of: fn(u64) -> E) {
    let mut body = Body::default();
    let x = body.load(0, ty);
    body.store(x, 1);
    let fused = Fused::new(body, sizes, vec![from.to_vec(), to.to_vec()]);
    let mut random = Random(sizes.len() as u64);
    let source: Vec<E> = (0..fused.span(0)).map(|_| of(random.bits())).collect();
    let mut expected: Vec<E> = (0..fused.span(1)).map(|_| of(random.bits())).collect();
    let mut memory = Memory(vec![Memory::stream(&source), Memory::stream(&expected)]);
    for lane in 0..fused.lanes() {
        let mut rest = lane;
        let mut index = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            index[axis] = rest % sizes[axis];
            rest /= sizes[axis];
        }
        expected[fused.offset(1, &index)] = source[fused.offset(0, &index)];
    }
    Tiles::default().run_on::<f32>(Machine::detect(), &fused, &mut memory);
    assert!(memory.elements::<E>(1)[..expected.len()] == expected, "{ty:?} {sizes:?}: {from:?} to {to:?}");
}

fn check_all(sizes: &[usize], from: &[isize], to: &[isize]) {
    check::<u8>(Type::U8, sizes, [from, to], |bits| bits as u8);
    check::<i32>(Type::I32, sizes, [from, to], |bits| bits as i32);
    check::<i64>(Type::I64, sizes, [from, to], |bits| bits as i64);
}

/// Returns random strides for which no two lanes share an element. The order of the axes in memory is random, some axes
/// may be reversed, and the elements may have gaps between them.
fn apart(random: &mut Random, sizes: &[usize]) -> Vec<isize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    for axis in 1..sizes.len() {
        order.swap(axis, random.below(axis + 1));
    }
    if random.below(2) == 0 {
        order.sort_unstable_by_key(|axis| sizes.len() - axis);
    }
    let mut strides = vec![0; sizes.len()];
    let mut next = [1, 1, 1, 2, 3][random.below(5)];
    for axis in order {
        strides[axis] = if random.below(4) == 0 { -next } else { next };
        next *= sizes[axis] as isize;
        next += if random.below(3) == 0 { random.below(4) as isize } else { 0 };
    }
    strides
}

#[test]
fn random_layouts() {
    let mut random = Random(7);
    for _ in 0..3000 {
        let mut lanes = 1;
        let sizes: Vec<usize> = (0..1 + random.below(5))
            .map(|_| {
                let size = match random.below(8) {
                    0 => 1,
                    1 => 16,
                    2 => 32 + random.below(40),
                    3 => 1 + random.below(600),
                    _ => 2 + random.below(9),
                };
                let size = if lanes * size > 6000 { 2 } else { size };
                lanes *= size;
                size
            })
            .collect();
        let to = match random.below(3) {
            0 => apart(&mut random, &sizes),
            _ => (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product::<usize>() as isize).collect(),
        };
        let mut from = apart(&mut random, &sizes);
        from.iter_mut().for_each(|stride| {
            if random.below(3) == 0 {
                *stride = 0
            }
        });
        check_all(&sizes, &from, &to);
    }
}

#[test]
fn repeated_and_transposed_rows() {
    for width in 1..20 {
        for rows in [1, 7, 8, 9, 300] {
            let (columns, lines) = (width as isize, rows as isize);
            for from in [[0, 1], [1, 0], [columns + 2, 1], [1, lines], [1, -lines], [0, -1], [-columns, -1], [3, 2]] {
                check_all(&[rows, width], &from, &[columns, 1]);
            }
            check_all(&[rows, width], &[columns, 1], &[1, lines]);
            check_all(&[5, rows, width], &[columns, 0, 1], &[lines * columns, columns, 1]);
            check_all(&[5, rows, width], &[0, columns, 1], &[lines * columns, 1, lines]);
        }
    }
}

#[test]
fn rows_with_gaps() {
    for (width, rows) in [(7, 9), (100, 50), (126, 126), (1000, 3), (1023, 9)] {
        for gap in [1, 2, 30] {
            let pitch = width + gap;
            check_all(&[rows as usize, width as usize], &[pitch, 1], &[pitch, 1]);
            let plane = (rows + 1) * pitch;
            check_all(&[4, rows as usize, width as usize], &[plane, pitch, 1], &[plane, pitch, 1]);
            check_all(&[4, rows as usize, width as usize], &[plane, pitch, 1], &[plane, pitch + 1, 1]);
        }
    }
}

#[test]
fn lanes_that_share_an_element_store_in_order() {
    for width in [2, 3, 8, 16, 40] {
        // If several lanes share an element, the last lane determines its value.
        check_all(&[100, width], &[width as isize, 1], &[0, 1]);
        check_all(&[100, width], &[width as isize, 1], &[1, 0]);
        check_all(&[100, width], &[width as isize, 1], &[1, 2]);
        check_all(&[100, width], &[width as isize, 1], &[0, 0]);
    }
}
