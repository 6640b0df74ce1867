//! Defines the constants of the functions in [`special`](super::special), for each element type. The coefficients are
//! those of minimax polynomials, in order of ascending powers. The coefficients were computed by the Remez algorithm,
//! with 50 digits of precision.

use crate::float::Float;

/// The constants that the functions in [`special`](super::special) use, for an element type.
pub trait SpecialTable: Float {
    /// The coefficients of erf(x) / x - 1 for abs(x) up to 1, as a polynomial in x^2.
    const ERF_SERIES: &'static [Self];
    /// An argument above which erf(x) rounds to 1.
    const ERF_TAIL_END: Self;
    /// The coefficients of -log(erfc(x)) for x between 1 and [`ERF_TAIL_END`](SpecialTable::ERF_TAIL_END). The
    /// polynomial's variable is x, scaled and shifted to the interval from -1 to 1.
    const ERF_TAIL: &'static [Self];
    /// An argument above which erfc(x) rounds to 0.
    const ERFC_END: Self;
    /// The number k in (x - k) / (x + k), the variable of the polynomial [`ERFC_SERIES`](SpecialTable::ERFC_SERIES).
    const ERFC_MIDDLE: Self;
    /// The coefficients of (1 + 2 x) exp(x^2) erfc(x) for x between 0 and [`ERFC_END`](SpecialTable::ERFC_END), as a
    /// polynomial in (x - k) / (x + k), where k is [`ERFC_MIDDLE`](SpecialTable::ERFC_MIDDLE).
    const ERFC_SERIES: &'static [Self];
    /// The value of w = -log(1 - x^2) that separates the two polynomials of erf_inv.
    const ERF_INV_SPLIT: Self;
    /// A value of w = -log(1 - x^2) near the middle of the interval of erf_inv's first polynomial. For f32, the value
    /// is chosen such that the first coefficient, which is the polynomial's value at this point, has almost no rounding
    /// error.
    const ERF_INV_MIDDLE: Self;
    /// The coefficients of erf_inv(x) / x for small w = -log(1 - x^2), as a polynomial in w -
    /// [`ERF_INV_MIDDLE`](SpecialTable::ERF_INV_MIDDLE).
    const ERF_INV_SERIES: &'static [Self];
    /// The value of sqrt(w), for w = -log(1 - x^2), in the middle of the interval of erf_inv's second polynomial.
    const ERF_INV_TAIL_MIDDLE: Self;
    /// The coefficients of erf_inv(x) / x for large w = -log(1 - x^2), as a polynomial in sqrt(w) -
    /// [`ERF_INV_TAIL_MIDDLE`](SpecialTable::ERF_INV_TAIL_MIDDLE).
    const ERF_INV_TAIL: &'static [Self];
    /// The coefficients of (sinh(x) - x) / x^3 for abs(x) up to 1, as a polynomial in x^2.
    const SINH_SERIES: &'static [Self];
    /// The coefficients of (atan(x) - x) / x^3 for abs(x) up to 1, as a polynomial in x^2.
    const ATAN_SERIES: &'static [Self];
    /// The coefficients of (asin(x) - x) / x^3 for abs(x) up to 1/2, as a polynomial in x^2.
    const ASIN_SERIES: &'static [Self];
    /// The coefficients of a first approximation to the cube root of x, for x between sqrt(1/2) and sqrt(2).
    const CBRT_SERIES: &'static [Self];
    /// The number of Newton steps that refine the first approximation to the cube root.
    const CBRT_STEPS: usize;
    /// The coefficients of (log((1 + s) / (1 - s)) / s - 2 - 2/3 s^2) / s^4, as a polynomial in s^2.
    const LOG_PAIR_SERIES: &'static [Self];
    /// 2/3, split into the nearest number and the remainder.
    const TWO_THIRDS: [Self; 2];
    /// pi / 2, split into the nearest number and the remainder.
    const RIGHT_ANGLE: [Self; 2];
}

impl SpecialTable for f32 {
    const ERF_SERIES: &'static [f32] =
        &[0.128_379_17, -0.376_126_26, 0.112_835_854, -0.026_853_813, 5.188_327_7e-3, -8.010_193_7e-4, 7.853_861e-5];
    const ERF_TAIL_END: f32 = 4.0;
    const ERF_TAIL: &'static [f32] =
        &[7.806_817, 8.029_04, 2.123_742, 0.036_172_62, -0.012_442_331, 1.184_76e-3, -2.113_763e-3];
    const ERFC_END: f32 = 10.25;
    const ERFC_MIDDLE: f32 = 2.0;
    const ERFC_SERIES: &'static [f32] = &[
        1.276_978_4,
        -0.092_763_856,
        -0.166_030_88,
        0.164_052_6,
        -0.054_208_44,
        -8.042_623e-3,
        8.647_452e-3,
        1.271_395_2e-3,
        -1.263_339e-3,
        -3.647_353_4e-4,
        2.963_442_2e-5,
    ];
    const ERF_INV_SPLIT: f32 = 5.0;
    const ERF_INV_TAIL_MIDDLE: f32 = 3.125;
    const ERF_INV_MIDDLE: f32 = 2.498_809_3;
    const ERF_INV_SERIES: &'static [f32] = &[
        1.501_115_7,
        0.246_650_22,
        -4.172_887e-3,
        -1.253_767_5e-3,
        2.183_593_5e-4,
        -4.945_425e-6,
        -3.463_315_4e-6,
        4.672_421e-7,
        2.308_627e-8,
        -8.875_737_5e-9,
    ];
    const ERF_INV_TAIL: &'static [f32] = &[
        2.958_320_1,
        1.003_718_7,
        7.048_866_2e-3,
        -5.301_239_4e-3,
        3.782_474e-3,
        -2.520_776_4e-3,
        1.309_437_9e-3,
        -3.226_307_2e-4,
        -1.731_763_6e-4,
        1.285_134_2e-4,
    ];
    const SINH_SERIES: &'static [f32] = &[0.166_666_67, 8.333_35e-3, 1.983_616e-4, 2.816_951_3e-6];
    const ATAN_SERIES: &'static [f32] = &[
        -0.333_333,
        0.199_985_49,
        -0.142_642_42,
        0.109_521_87,
        -0.084_034_55,
        0.057_957_657,
        -0.031_177_903,
        0.010_914_633,
        -1.793_627_2e-3,
    ];
    const ASIN_SERIES: &'static [f32] = &[0.166_667_52, 0.074_952_975, 0.045_470_376, 0.024_179_496, 0.042_166_36];
    const CBRT_SERIES: &'static [f32] = &[0.451_667_2, 0.904_817_6, -0.535_629_33, 0.216_936_86, -0.037_788_045];
    const CBRT_STEPS: usize = 1;
    const LOG_PAIR_SERIES: &'static [f32] = &[0.400_000_15, 0.285_620_03, 0.230_584_31];
    const TWO_THIRDS: [f32; 2] = [0.666_666_7, -1.986_821_6e-8];
    const RIGHT_ANGLE: [f32; 2] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8];
}

impl SpecialTable for f64 {
    const ERF_SERIES: &'static [f64] = &[
        0.128_379_167_095_512_56,
        -0.376_126_389_031_835_2,
        0.112_837_916_709_441_85,
        -0.026_866_170_643_111_465,
        5.223_977_606_118_293e-3,
        -8.548_325_929_300_999e-4,
        1.205_529_357_640_305_5e-4,
        -1.492_471_229_120_599_6e-5,
        1.644_713_142_670_48e-6,
        -1.620_631_258_484_335_3e-7,
        1.371_097_509_359_529_1e-8,
        -7.779_458_245_886_857e-10,
    ];
    const ERF_TAIL_END: f64 = 6.0;
    const ERF_TAIL: &'static [f64] = &[
        14.112_437_402_141_52,
        18.165_248_970_655_54,
        6.042_206_590_404_568,
        0.081_650_924_264_910_33,
        -0.034_128_175_273_934_754,
        0.014_385_618_364_970_825,
        -5.953_090_705_434_092_5e-3,
        2.360_826_042_227_404e-3,
        -9.526_334_116_764_858e-4,
        1.997_221_895_356_614e-4,
        -1.044_725_311_922_620_6e-4,
        4.095_281_235_077_621_6e-4,
        9.978_291_352_175_464e-4,
        1.354_273_095_983_145_7e-3,
        1.171_185_986_857_729_4e-3,
        6.345_218_434_192_816e-4,
        2.035_764_129_045_645e-4,
        2.831_764_548_785_703e-5,
    ];
    const ERFC_END: f64 = 27.5;
    const ERFC_MIDDLE: f64 = 4.0;
    const ERFC_SERIES: &'static [f64] = &[
        1.232_995_118_625_552_6,
        -0.139_621_116_840_562_53,
        0.015_379_652_102_619_65,
        0.068_097_054_254_695_41,
        -0.101_039_066_036_299_31,
        0.093_732_834_998_252_13,
        -0.066_330_365_812_324_68,
        0.037_167_515_539_064_87,
        -0.016_197_734_056_596_334,
        5.031_969_963_889_805_5e-3,
        -7.577_732_969_352_194e-4,
        -1.992_566_188_755_643_3e-4,
        1.506_217_161_000_852_7e-4,
        -2.439_946_943_143_681_2e-5,
        -1.122_217_322_257_376e-5,
        5.710_265_046_546_401e-6,
        2.941_715_985_862_359_7e-7,
        -8.260_672_103_018_181e-7,
        7.405_234_370_957_744e-8,
        1.104_084_677_549_270_3e-7,
        -1.740_031_423_164_216_4e-8,
        -1.408_445_757_933_137_6e-8,
        1.645_312_247_081_156_2e-9,
        1.188_955_333_360_228_4e-9,
    ];
    const ERF_INV_SPLIT: f64 = 6.25;
    const ERF_INV_TAIL_MIDDLE: f64 = 4.25;
    const ERF_INV_MIDDLE: f64 = 3.125;
    const ERF_INV_SERIES: &'static [f64] = &[
        1.653_654_562_683_102_7,
        0.240_158_182_425_588_34,
        -6.033_670_871_426_996e-3,
        -7.407_025_341_545_544e-4,
        1.867_342_080_205_288e-4,
        -1.388_252_339_419_694e-5,
        -1.365_469_177_263_151_3e-6,
        4.234_788_171_200_875_4e-7,
        -2.907_038_989_623_815e-8,
        -4.112_660_642_629_856e-9,
        1.051_222_567_203_922_6e-9,
        -5.414_294_636_325_357_5e-11,
        -1.297_850_425_882_929_4e-11,
        2.630_503_484_452_349_7e-12,
        -8.079_289_774_067_705e-14,
        -4.001_590_331_459_575_6e-14,
        6.533_338_646_940_599e-15,
        -3.987_732_223_550_288e-17,
        -1.234_483_436_758_508_4e-16,
        1.554_514_902_759_364_4e-17,
        6.956_357_474_796_521_5e-19,
        -3.487_627_428_165_185_4e-19,
        1.654_051_390_169_779e-20,
        3.219_330_634_158_591e-21,
        -3.001_827_789_239_253_3e-22,
    ];
    const ERF_INV_TAIL: &'static [f64] = &[
        4.092_223_423_668_13,
        1.009_978_277_161_254,
        7.127_499_726_539_469e-4,
        -6.078_940_274_017_503e-4,
        2.121_767_133_816_242_6e-4,
        -6.441_975_142_659_728e-5,
        2.198_012_742_530_011e-5,
        -1.019_766_151_675_686_7e-5,
        5.807_271_028_750_82e-6,
        -3.211_137_800_757_343_5e-6,
        1.490_168_990_059_035_3e-6,
        -5.152_438_958_321_499e-7,
        9.329_909_520_753_209e-8,
        2.559_247_741_296_720_3e-8,
        -3.015_028_262_450_543_4e-8,
        1.345_369_135_774_322e-8,
        -3.062_011_816_677_769e-9,
        -1.990_443_442_112_695_7e-10,
        4.603_338_976_787_715_6e-10,
        -1.828_662_466_146_180_7e-10,
        3.454_147_692_230_637_3e-11,
        1.303_160_326_452_714_2e-12,
        -4.194_381_907_772_385e-12,
        1.899_633_764_409_296_6e-12,
        -3.041_727_361_561_851e-13,
        -6.932_521_342_241_906e-14,
        3.399_637_332_915_888_7e-14,
        -3.729_130_695_706_2e-15,
    ];
    const SINH_SERIES: &'static [f64] = &[
        0.166_666_666_666_666_69,
        8.333_333_333_333_148e-3,
        1.984_126_984_143_187_5e-4,
        2.755_731_915_707_064_5e-6,
        2.505_212_313_691_506e-8,
        1.605_725_975_418_52e-10,
        7.758_749_227_819_664e-13,
    ];
    const ATAN_SERIES: &'static [f64] = &[
        -0.333_333_333_333_332_87,
        0.199_999_999_999_904_45,
        -0.142_857_142_850_365_88,
        0.111_111_110_864_466_32,
        -0.090_909_085_472_479_54,
        0.076_922_997_117_321_3,
        -0.066_665_837_226_936_63,
        0.058_817_161_548_818_37,
        -0.052_594_338_001_958_396,
        0.047_449_261_886_351_96,
        -0.042_863_912_137_862_434,
        0.038_210_072_661_508_34,
        -0.032_785_448_059_000_14,
        0.026_151_700_169_320_95,
        -0.018_614_244_064_501_39,
        0.011_317_696_928_964_886,
        -5.612_422_697_385_679e-3,
        2.151_607_300_698_801_6e-3,
        -5.929_003_512_974_896e-4,
        1.038_734_842_554_762_3e-4,
        -8.654_369_042_104_635e-6,
    ];
    const ASIN_SERIES: &'static [f64] = &[
        0.166_666_666_666_667_6,
        0.074_999_999_999_707_98,
        0.044_642_857_174_614_3,
        0.030_381_942_707_674_917,
        0.022_372_214_990_142_28,
        0.017_351_611_980_859_095,
        0.013_980_820_798_335_918,
        0.011_398_911_216_621_099,
        0.010_780_253_432_097_849,
        3.706_422_232_177_615_3e-3,
        0.021_707_381_605_273_35,
        -0.020_998_930_929_284_048,
        0.032_628_521_062_079_224,
    ];
    const CBRT_SERIES: &'static [f64] = &[
        0.421_689_656_685_12,
        1.056_015_629_923_883_9,
        -0.836_070_779_561_101_2,
        0.510_966_776_200_183_3,
        -0.179_557_264_738_305_3,
        0.026_954_994_605_503_466,
    ];
    const CBRT_STEPS: usize = 2;
    const LOG_PAIR_SERIES: &'static [f64] = &[
        0.4,
        0.285_714_285_714_294_3,
        0.222_222_222_216_158_6,
        0.181_818_183_443_087_5,
        0.153_845_940_245_063_5,
        0.133_348_550_069_623_15,
        0.117_049_058_755_910_87,
        0.117_369_315_187_667_19,
    ];
    const TWO_THIRDS: [f64; 2] = [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17];
    const RIGHT_ANGLE: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
}
