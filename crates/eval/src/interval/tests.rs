//! Intervals of shares and of unpaired differences, against another implementation and by their properties.

use super::*;
use proptest::prelude::*;

fn share(count: u64, of: u64) -> Share {
    Share::new(count, of).unwrap()
}

fn check(got: Option<Interval>, (low, high): (f64, f64)) {
    let got = got.unwrap();
    assert!((got.low - low).abs() < 1e-9, "{got:?} starts at {low}");
    assert!((got.high - high).abs() < 1e-9, "{got:?} ends at {high}");
}

/// A share's Wilson interval; the expected numbers are those of statsmodels 0.15.
fn check_wilson(count: u64, of: u64, expected: (f64, f64)) {
    check(wilson(share(count, of), Level::CONFIDENCE), expected);
}

#[test]
fn z_is_that_of_the_tables() {
    for (got, expected) in [
        (Level::CONFIDENCE.two_sided_z(), 1.959_963_984_540_054),
        (Level::POWER.one_sided_z(), 0.841_621_233_572_914_3),
        (Level::new(0.5).unwrap().one_sided_z(), 0.0),
        (Level::new(0.9).unwrap().two_sided_z(), 1.644_853_626_951_472_2),
    ] {
        assert!((got - expected).abs() < 1e-10, "{got} {expected}");
    }
}

#[test]
fn a_level_lies_between_0_and_1() {
    for bad in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
        assert!(Level::new(bad).is_err(), "{bad}");
    }
    assert_eq!(Level::CONFIDENCE.to_string(), "95 %");
    assert_eq!(Level::new(0.975).unwrap().to_string(), "97.5 %");
}

#[test]
fn wilson_intervals_of_small_and_large_samples() {
    check_wilson(9, 16, (0.331_785_563_988, 0.769_013_475_945));
    check_wilson(11, 16, (0.444_043_558_347, 0.858_353_561_452));
    check_wilson(292, 400, (0.684_457_128_729, 0.771_167_215_877));
    check_wilson(285, 384, (0.696_188_542_544, 0.783_388_861_495));
    check_wilson(23, 106, (0.149_162_595_872, 0.304_595_569_359));
    check_wilson(1, 1, (0.206_549_314_377, 1.0));
    let at_90 = wilson(share(9, 16), Level::new(0.9).unwrap());
    check(at_90, (0.364_578_184_921, 0.742_341_991_170));
}

#[test]
fn e1_none_and_all_of_16_have_a_width() {
    check_wilson(0, 16, (0.0, 0.193_607_680_534));
    check_wilson(16, 16, (0.806_392_319_466, 1.0));
    assert_eq!(wilson(share(0, 16), Level::CONFIDENCE).unwrap().low.to_bits(), 0);
}

#[test]
fn nine_and_eleven_of_16_read_33_to_77_and_44_to_86() {
    let text = |count| wilson(share(count, 16), Level::CONFIDENCE).unwrap().to_string();
    assert_eq!(text(9), "33.2 to 76.9 (Wilson, 95 %)");
    assert_eq!(text(11), "44.4 to 85.8 (Wilson, 95 %)");
}

#[test]
fn the_wald_half_width_of_73_per_cent_of_400_is_4_35_points() {
    let got = wald(share(292, 400), Level::CONFIDENCE).unwrap();
    assert!((100.0 * got.half_width() - 4.35).abs() < 0.005, "{got:?}");
    assert_eq!(points(got.half_width()), "4.4");
    check(Some(got), (0.686_492_772_625, 0.773_507_227_375));
}

#[test]
fn seventy_six_queries_give_ten_points_for_one_share() {
    let got = wald(share(55, 76), Level::CONFIDENCE).unwrap();
    assert!((100.0 * got.half_width() - 10.0).abs() < 0.1, "{got:?}");
}

#[test]
fn wald_has_no_width_at_the_ends() {
    assert_eq!(wald(share(16, 16), Level::CONFIDENCE).unwrap().half_width().to_bits(), 0);
}

#[test]
fn a_difference_of_two_in_16_is_not_resolved_by_either_formula() {
    let (a, b) = (share(9, 16), share(11, 16));
    let by_wald = wald_difference(a, b, Level::CONFIDENCE).unwrap();
    let by_newcombe = newcombe(a, b, Level::CONFIDENCE).unwrap();
    check(Some(by_wald), (-0.207_666_539_605, 0.457_666_539_605));
    check(Some(by_newcombe), (-0.194_247_325_328, 0.412_088_993_946));
    assert_eq!(by_wald.to_string(), "-20.8 to 45.8 (Wald, 95 %)");
    assert_eq!(by_newcombe.to_string(), "-19.4 to 41.2 (Newcombe, 95 %)");
    for interval in [by_wald, by_newcombe] {
        assert_eq!(interval.direction().to_string(), "not resolved");
    }
}

#[test]
fn differences_agree_with_another_implementation() {
    let level = Level::CONFIDENCE;
    let (a, b) = (share(56, 70), share(48, 80));
    check(newcombe(a, b, level), (-0.333_872_654_037, -0.052_431_472_402));
    check(wald_difference(a, b, level), (-0.342_495_100_851, -0.057_504_899_149));
    assert_eq!(newcombe(a, b, level).unwrap().direction(), Direction::Lower);
    assert_eq!(newcombe(b, a, level).unwrap().direction(), Direction::Higher);
    check(newcombe(share(0, 16), share(16, 16), level), (0.726_197_392_409, 1.0));
}

#[test]
fn of_nothing_there_is_no_interval() {
    let (none, some) = (Share::default(), share(1, 2));
    let level = Level::CONFIDENCE;
    assert_eq!((wilson(none, level), wald(none, level)), (None, None));
    assert_eq!((newcombe(none, some, level), newcombe(some, none, level)), (None, None));
    assert_eq!(wald_difference(some, none, level), None);
}

fn any_share() -> impl Strategy<Value = Share> {
    (1u64..2000).prop_flat_map(|of| (0..=of).prop_map(move |count| share(count, of)))
}

proptest! {
    #[test]
    fn a_wilson_interval_holds_its_share_and_has_a_width(share in any_share()) {
        let got = wilson(share, Level::CONFIDENCE).unwrap();
        prop_assert!(0.0 <= got.low && got.low < got.high && got.high <= 1.0);
        prop_assert!(got.contains(share.proportion().unwrap()));
    }

    #[test]
    fn a_higher_level_gives_a_wider_interval(share in any_share()) {
        let narrow = wilson(share, Level::POWER).unwrap();
        prop_assert!(narrow.half_width() < wilson(share, Level::CONFIDENCE).unwrap().half_width());
    }

    #[test]
    fn exchanging_the_sides_turns_the_sign(a in any_share(), b in any_share()) {
        for method in [newcombe, wald_difference] {
            let there = method(a, b, Level::CONFIDENCE).unwrap();
            let back = method(b, a, Level::CONFIDENCE).unwrap();
            prop_assert!((there.low + back.high).abs() < 1e-12);
            prop_assert!((there.high + back.low).abs() < 1e-12);
            prop_assert!(there.low <= there.high);
        }
        prop_assert!(newcombe(a, b, Level::CONFIDENCE).unwrap().low >= -1.0);
    }
}
