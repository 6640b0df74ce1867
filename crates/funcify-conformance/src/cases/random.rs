//! Category `random`: keys, bits and distributions, and random numbers in loops.
//!
//! The expected values are literals. Values that are marked with a comment were printed by JAX. All other values were
//! computed in Python from the definition of Threefry-2x32 and JAX's formulas, with mpmath's inverse error function and
//! logarithm.

use funcify::random;

use super::*;

/// Builds every case of the category.
pub(crate) fn cases() -> Cases {
    let groups = [keys()?, uniform()?, normal()?, integers()?, others()?, loops()?];
    Ok(groups.into_iter().flatten().collect())
}

/// Builds a case whose program must return `outputs`, given as pairs of a name and a tensor. The relative tolerance is
/// 1e-12 for f64, 1e-6 for f32, and 0 for other types.
fn gives<T: Tree, const N: usize, const M: usize>(
    name: &str,
    program: impl FnOnce(&Builder) -> T,
    inputs: [HostTensor; N],
    outputs: [(&str, HostTensor); M],
) -> OneCase {
    let graph = Graph::build("random", program).map_err(|error| format!("case `random/{name}`: {error}"))?;
    let expected = outputs.map(|(name, values)| {
        let rtol = match values.dtype() {
            DType::F64 => 1e-12,
            DType::F32 => 1e-6,
            _ => 0.0,
        };
        ExpectedOutput { name: name.to_string(), ty: values.ty(), values, rtol, atol: 0.0 }
    });
    Ok(Case {
        name: format!("random/{name}"),
        category: "random".to_string(),
        graph,
        inputs: inputs.to_vec(),
        expected: Expected::Outputs(expected.into()),
        needs_dynamic_steps: false,
    })
}

/// Builds a case that draws `y` from a distribution, with the key for `seed`.
fn draws<T: Tree>(
    name: &str,
    seed: i64,
    draw: impl FnOnce(funcify::Value) -> T,
    expected: impl Into<HostTensor>,
) -> OneCase {
    let program = |g: &Builder| outputs! { y: draw(g.input("key", "u32[2]")) };
    gives(name, program, [random::host_key(seed)], [("y", expected.into())])
}

fn keys() -> Cases {
    // JAX prints these keys for `split(key(42), 3)`.
    let split = [[1_832_780_943u32, 270_669_613], [64_467_757, 2_916_123_636], [2_465_931_498, 255_383_827]];
    let bits = [2_098_992_034u32, 2_919_706_841, 2_646_866_425, 2_409_546_199, 1_935_504_149, 2_516_274_904];
    let of_each = [[2_277_453_133u32, 1_345_880_512], [3_125_294_276, 3_383_865_362], [2_865_777_128, 3_098_761_794]];
    let below_zero = [2_184_605_905u32, 1_041_072_428, 3_062_492_626, 2_166_569_669];
    let folded = |g: &Builder| {
        let (key, data) = (g.input("key", "u32[2]"), g.input("data", "i64[]"));
        outputs! { by_number: random::fold_in(key, 5), by_value: random::fold_in(key, data) }
    };
    let constant_key =
        |_: &Builder| outputs! { y: random::bits(random::key(-2), [4]), none: random::bits(random::key(3), [0]) };
    let symbolic = |g: &Builder| {
        let (key, xs) = (g.input("key", "u32[2]"), g.input("xs", "f32[T]"));
        outputs! { y: random::bits(key, [xs.dim(0) + 2]), key }
    };
    let key_7 = HostTensor::from([3_583_082_021u32, 1_947_592_014]);
    Ok(vec![
        draws(
            "bits",
            42,
            |key| random::bits(key, [2, 3]),
            HostTensor::from([[bits[0], bits[1], bits[2]], [bits[3], bits[4], bits[5]]]),
        )?,
        draws("bits_of_a_scalar", 42, |key| random::bits(key, Shape::scalar()), bits[0])?,
        draws("split", 42, |key| random::split(key, 3), split)?,
        draws("bits_of_each_key", 42, |key| random::bits(random::split(key, 3), [2]), of_each)?,
        gives(
            "fold_in",
            folded,
            [random::host_key(7), 5i64.into()],
            [("by_number", key_7.clone()), ("by_value", key_7)],
        )?,
        gives(
            "bits_of_a_constant_key",
            constant_key,
            [],
            [("y", below_zero.into()), ("none", HostTensor::from([0u32; 0]))],
        )?,
        gives(
            "bits_of_a_symbolic_shape",
            symbolic,
            [random::host_key(-2), [0f32, 0.0].into()],
            [("y", below_zero.into()), ("key", random::host_key(-2))],
        )?,
    ])
}

/// Builds the cases for uniform numbers, which are exact on every backend because they are computed directly from the
/// random bits.
fn uniform() -> Cases {
    let unit = |dtype| move |key| random::uniform(key, [3], dtype, 0, 1);
    let five = |dtype| move |key| random::uniform(key, [5], dtype, 0.0, 1.0);
    let between = |key| random::uniform(key, [4], DType::F32, -3.0, 5.0);
    let f64s = [0.418_457_111_716_386_44, 0.216_295_454_605_511_36, 0.965_321_461_118_997_5];
    Ok(vec![
        // JAX prints 0.947667, 0.9785799 and 0.33229148.
        draws("uniform_f32", 0, unit(DType::F32), [0.947_667_f32, 0.978_579_9, 0.332_291_48])?,
        draws("uniform_f64", 0, unit(DType::F64), f64s)?,
        draws(
            "uniform_f16",
            0,
            five(DType::F16),
            HostTensor::from([0.310_546_875, 0.212_890_625, 0.054_687_5, 0.656_25, 0.232_421_875]).cast(DType::F16),
        )?,
        draws(
            "uniform_bf16",
            0,
            five(DType::BF16),
            HostTensor::from([0.648_437_5, 0.570_312_5, 0.156_25, 0.203_125, 0.710_937_5]).cast(DType::BF16),
        )?,
        draws("uniform_between", 6, between, [2.203_410_1_f32, -0.727_451_3, -2.626_815_8, -2.084_393_5])?,
    ])
}

fn normal() -> Cases {
    let three = |dtype| move |key| random::normal(key, [3], dtype);
    let f64s = [-0.184_711_745_281_911_64, -2.169_824_560_397_754_6, 0.186_935_551_793_825_87];
    Ok(vec![
        // JAX prints these numbers for f32.
        draws("normal_f32", 0, three(DType::F32), [1.622_642_2_f32, 2.025_264_7, -0.433_594_44])?,
        draws("normal_of_42", 42, |key| random::normal(key, Shape::scalar(), DType::F32), -0.028_304_616_f32)?,
        draws("normal_f64", 42, three(DType::F64), f64s)?,
    ])
}

fn integers() -> Cases {
    let i64s =
        [-987_051_902_791_744_889i64, 3_934_491_568_298_764_156, 2_941_600_515_744_621_282, 32_745_438_482_963_340];
    let widest = [
        -5_598_737_921_219_132_793i64,
        -677_194_450_128_623_748,
        -1_670_085_502_682_766_622,
        4_644_431_456_910_363_589,
    ];
    let by_values = |g: &Builder| {
        let (key, low) = (g.input("key", "u32[2]"), g.input("low", "i32[]"));
        outputs! { y: random::randint(key, [5], DType::I32, low, low + 10) }
    };
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX) + 1);
    Ok(vec![
        // JAX prints these integers.
        draws("integers_i32", 1, |key| random::randint(key, [5], DType::I32, 0, 10), [6i32, 7, 0, 3, 8])?,
        gives("integers_by_values", by_values, [random::host_key(1), 0i32.into()], [("y", [6i32, 7, 0, 3, 8].into())])?,
        draws(
            "integers_far_apart",
            2,
            |key| random::randint(key, [4], DType::I32, -5, 2_000_000_000),
            [276_425_792i32, 184_892_018, 80_023_364, 1_832_808_373],
        )?,
        draws(
            "integers_all_i32",
            2,
            |key| random::randint(key, [3], DType::I32, least, most),
            [2_128_942_159i32, 37_408_380, -2_067_460_279],
        )?,
        draws("integers_u8", 3, |key| random::randint(key, [6], DType::U8, 10, 200), [85u8, 125, 167, 180, 22, 114])?,
        draws(
            "integers_all_u8",
            3,
            |key| random::randint(key, [6], DType::U8, 0, 256),
            [75u8, 115, 157, 170, 12, 104],
        )?,
        draws(
            "integers_u32",
            4,
            |key| random::randint(key, [4], DType::U32, 5, 4_000_000_000i64),
            [2_739_478_363u32, 2_489_000_807, 3_015_155_602, 2_664_741_927],
        )?,
        draws("integers_of_an_empty_range", 4, |key| random::randint(key, [3], DType::U32, 7, 7), [7u32; 3])?,
        draws("integers_i64", 5, |key| random::randint(key, [4], DType::I64, 0, 10), [7i64, 2, 6, 1])?,
        draws(
            "integers_i64_large",
            5,
            |key| random::randint(key, [4], DType::I64, 0, 1_000_000_000_000i64),
            [115_635_643_015i64, 586_726_152_060, 534_172_009_186, 493_765_139_397],
        )?,
        draws(
            "integers_i64_far_apart",
            5,
            |key| random::randint(key, [4], DType::I64, -(1i64 << 62), (1i64 << 62) + 12_345),
            i64s,
        )?,
        draws("integers_almost_all_i64", 5, |key| random::randint(key, [4], DType::I64, i64::MIN, i64::MAX), widest)?,
    ])
}

fn others() -> Cases {
    let categorical = |g: &Builder| {
        let (key, logits) = (g.input("key", "u32[2]"), g.input("logits", "f32[2,3]"));
        outputs! { rows: random::categorical(key, logits, -1), columns: random::categorical(key, logits, 0) }
    };
    let logits = HostTensor::from([[0f32, 1.0, 2.0], [3.0, -1.0, 0.5]]);
    Ok(vec![
        draws(
            "exponential",
            8,
            |key| random::exponential(key, [4], DType::F32),
            [0.343_397_17_f32, 0.089_358_26, 5.830_989_4, 1.250_436],
        )?,
        draws(
            "gumbel",
            9,
            |key| random::gumbel(key, [4], DType::F32),
            [-1.163_029_4_f32, 3.411_984_7, 0.141_732_32, -0.825_251_76],
        )?,
        draws(
            "bernoulli",
            10,
            |key| random::bernoulli(key, [8], 0.3),
            [true, false, false, false, false, true, false, false],
        )?,
        gives(
            "categorical",
            categorical,
            [random::host_key(11), logits],
            [("rows", [2i64, 0].into()), ("columns", [1i64, 1, 0].into())],
        )?,
    ])
}

/// Builds the cases for loops that carry the key, run over the rows of split keys, or derive a key from the step index
/// with `fold_in`.
fn loops() -> Cases {
    let walk = |dtype: DType| {
        move |g: &Builder| {
            let start = (g.input("key", "u32[2]"), g.input("x", funcify::TensorType::scalar(dtype)));
            let ((key, _), xs) = scan_with(ScanOptions::new().length(5), start, (), |(key, x), ()| {
                let [key, step] = random::split(key, 2).unstack(0);
                let x = x + random::normal(step, Shape::scalar(), dtype);
                ((key, x), x)
            });
            outputs! { key, xs }
        }
    };
    let rows = |g: &Builder| {
        let keys = random::split(g.input("key", "u32[2]"), 3);
        let (_, ys) = scan(constant(0u32), keys, |seen, key| {
            let bits = random::bits(key, [2]);
            (seen ^ bits.index(0, 0), bits)
        });
        outputs! { ys }
    };
    let folded = |g: &Builder| {
        let key = g.input("key", "u32[2]");
        let ((), ys) = scan((), iota(4, DType::I64), |(), t| ((), random::bits(random::fold_in(key, t), [2])));
        outputs! { ys }
    };
    // Draws uniform numbers until one is below 0.1.
    let rejection = |g: &Builder| {
        let start = (g.input("key", "u32[2]"), g.input("count", "i64[]"), g.input("u", "f32[]"));
        let (key, count, u) = while_loop(
            start,
            |(_, _, u)| u.ge(0.1),
            |(key, count, _)| {
                let [key, draw] = random::split(key, 2).unstack(0);
                (key, count + 1, random::uniform(draw, Shape::scalar(), DType::F32, 0, 1))
            },
        );
        outputs! { key, count, u }
    };
    let end = HostTensor::from([3_952_908_011u32, 3_835_524_538]);
    let f32s = [-2.442_456_2_f32, -3.699_933_5, -5.087_702, -7.389_968, -8.404_745];
    let f64s = [
        -1.400_884_102_827_668_6,
        -0.957_674_351_597_504_2,
        -1.338_499_914_303_3,
        -2.334_021_582_414_248_3,
        -0.570_797_349_256_142_5,
    ];
    let of_each = [[2_277_453_133u32, 1_345_880_512], [3_125_294_276, 3_383_865_362], [2_865_777_128, 3_098_761_794]];
    let of_steps = [
        [3_725_328_165u32, 2_389_352_394],
        [2_899_676_959, 3_548_400_998],
        [884_754_664, 1_109_997_517],
        [993_572_756, 1_359_526_531],
    ];
    Ok(vec![
        gives(
            "walk_f32",
            walk(DType::F32),
            [random::host_key(0), 0f32.into()],
            [("key", end.clone()), ("xs", f32s.into())],
        )?,
        gives("walk_f64", walk(DType::F64), [random::host_key(0), 0f64.into()], [("key", end), ("xs", f64s.into())])?,
        gives("key_of_a_row", rows, [random::host_key(42)], [("ys", of_each.into())])?,
        gives("key_of_a_step", folded, [random::host_key(7)], [("ys", of_steps.into())])?,
        Case {
            needs_dynamic_steps: true,
            ..gives(
                "draws_until_one_is_small",
                rejection,
                [random::host_key(12), 0i64.into(), 1f32.into()],
                [
                    ("key", [2_097_818_774u32, 1_900_941_950].into()),
                    ("count", 2i64.into()),
                    ("u", 0.020_733_714_f32.into()),
                ],
            )?
        },
    ])
}
