//! Numbers that must come out: when a merge rule can fire, what budgets come to.

use umbel::core::merge::{need, satisfiable};

#[test]
fn need_follows_count_and_share() {
    // levels 2048/512: four children; 2048/128: sixteen.
    let check = |children, min_siblings, ratio, expected| {
        assert_eq!(need(children, min_siblings, ratio), expected)
    };
    check(4, 2, 0.5, 2);
    check(4, 3, 0.5, 3);
    check(16, 3, 0.5, 8);
    check(40, 3, 0.5, 20);
    check(3, 2, 0.34, 2);
    check(2, 3, 0.5, 3);
    check(10, 2, 0.0, 2);
}

#[test]
fn a_rule_that_cannot_fire_is_found_by_arithmetic() {
    assert!(satisfiable(4, 2, 0.5, 12));
    assert!(satisfiable(16, 3, 0.5, 12));
    // Eight of sixteen in a list of twelve: two thirds of the list belong to one parent.
    assert!((need(16, 3, 0.5) as f64 / 12.0 - 0.67).abs() < 0.005);
    assert!(!satisfiable(16, 3, 0.5, 7));
    assert!(!satisfiable(2, 3, 0.5, 30));
}

#[test]
fn three_of_four_fire_and_three_of_forty_do_not() {
    let fires = |matched: usize, children: usize| matched >= need(children, 3, 0.5);
    assert_eq!([fires(3, 4), fires(3, 16), fires(3, 40)], [true, false, false]);
}
